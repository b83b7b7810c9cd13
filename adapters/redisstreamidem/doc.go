// Package redisstreamidem consumes messages of Redis streams and publishes an outbox to them. It
// needs Redis 6.2 or newer.
//
// [Open] returns a mqidem.Source on a consumer group, which it creates. [NewDeadLetters] returns
// the dead-letter queue, which is a second stream. [NewPublisher] returns an outbox.Publisher,
// whose topics are streams.
//
// The package works with any redisclient.Client, and sends only Lua scripts. So a message is
// dead-lettered and acked in one step, and a slow consumer cannot take back a message that another
// one has taken over. A script cannot block, so an idle source polls: first 5 ms after it has found
// something, later every 250 ms. We refused blocking reads, which need their own client and a
// connection for each source, and lose messages that arrive while a read is ended.
//
// A live consumer renews its claim on each unsettled message three times in [Options].Idle. If a
// consumer has been silent for that long, another one takes over its messages. A later try waits in
// the process that asked for it. If that process dies, another one gets the message after Idle,
// which may be earlier.
//
// An entry has the fields "body", "retrysafe-id", "retrysafe-key" and "content-type"; every other
// field is a header. Finished entries are removed only with [Options].Delete or
// [PublisherOptions].MaxLen. Without Delete a consumer needs records that are kept for ever, or
// mqidem.Options.HoldsFor: an entry that stays can be delivered again. A stream with a maximum
// length loses entries if consumers are slow: choose a length that lasts for longer than the
// longest outage. Entries that a consumer had and that are gone before they were settled are
// reported as lost. Those that no consumer has read leave no trace.
package redisstreamidem
