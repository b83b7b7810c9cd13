// Package redisstreamidem takes messages from Redis streams and publishes an outbox to them. It
// needs Redis 6.2 or newer.
//
// [Open] is a mqidem.Source on a consumer group, which it makes; [NewParking] is what was parked, a
// stream beside the first; [NewPublisher] is an outbox.Publisher, whose topics are streams.
//
// It runs on any redisclient.Client, and all that it does is Lua: then a message is parked and
// acked in one step, and one that another consumer has taken over is not taken back by who was too
// slow. A script cannot block, so that an idle source asks again and again, 5 ms after it has found
// something and 250 ms at last. Refused: blocking reads, which need a client of their own, a
// connection for each source, and lose what arrives while they are ended.
//
// A consumer that lives says so of each message that it has not settled, three times in
// [Options].Idle. What belongs to one that has been silent for that long is taken over by another.
// A later try waits in the process that asked for it; where that dies, another one has the message
// after Idle, which may be earlier.
//
// An entry is the fields "body", "retrysafe-id", "retrysafe-key" and "content-type"; each other
// field is a header. Nothing removes what is done unless [Options].Delete or
// [PublisherOptions].MaxLen says so. A stream that is cut to a length loses what nobody has read
// yet when consumers are slow, and says nothing: choose a length that holds for longer than the
// longest outage.
package redisstreamidem
