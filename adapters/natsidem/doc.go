// Package natsidem consumes messages of NATS JetStream and publishes an outbox to it.
//
// [Create] creates a stream, a durable pull consumer and a stream of dead letters. It does not
// change what already exists. [Open] returns a mqidem.Source on such a consumer, [OpenDeadLetters]
// its dead-letter queue, and [NewPublisher] an outbox.Publisher.
//
// The id of a message is in the header "retrysafe-id", and in Nats-Msg-Id. By the latter the server
// drops duplicates within the stream's duplicate window (2 minutes unless set). That saves work and
// guarantees nothing: a duplicate after the window is delivered. A redriven message gets another
// Nats-Msg-Id. Otherwise the server would drop it within the window, and it would be lost.
//
// The consumer must have no limit of deliveries (MaxDeliver): with a limit the server drops
// messages that are merely slow. mqidem.Options limits the tries of a message. If the consumer has
// a MaxAckPending, messages that wait for a later try count, and at the limit the messages after
// them wait; [Create] sets none. Headers are those of the producer without the server's own
// (Nats-…). The protocol trims spaces around their values. It only accepts names of letters, digits
// and the characters that HTTP allows in a token. A key that is not plain text is quoted as a Go
// string.
package natsidem
