// Package natsidem takes messages from NATS JetStream and publishes an outbox to it.
//
// [Create] makes a stream, a durable pull consumer and a stream of parked messages; what is there
// already it leaves as it is. [Open] is a mqidem.Source on such a consumer, [OpenParking] what was
// parked, [NewPublisher] an outbox.Publisher.
//
// The id of a message stands in the header "retrysafe-id", and in Nats-Msg-Id, by which the server
// drops repeats for the stream's duplicate window (2 minutes unless set). That spares work and
// guarantees nothing: a repeat after the window is delivered. What is put back from the parking has
// another Nats-Msg-Id, or the server would drop it within the window, and the message would be
// nowhere.
//
// The consumer must have no limit of deliveries (MaxDeliver): a server that counts lets a message
// go which is only slow. How often a message is tried is for mqidem.Options to say. Where it has a
// MaxAckPending, messages that wait for a later try count for it, and those behind them wait at the
// limit; [Create] sets none. Headers are those of the producer without the server's own (Nats-…);
// the protocol trims spaces around their values, and takes only names of letters, digits and what
// HTTP allows in a token. A key that is not plain text is written in quotes, as Go does.
package natsidem
