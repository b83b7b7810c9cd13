// Package mqidem makes consumers of messages do their work once.
//
// A broker delivers a message at least once. It delivers the message again if the consumer died
// before its ack or was too slow, and the producer sends again if it saw no confirmation. [Once]
// keeps a record for each message and consumer, so that the work is not done again. [OnceTx] keeps
// the record in the transaction of the effect, so that the effect happens exactly once. [Consume]
// receives messages from a [Source], runs such a handler, and settles each message: an ack, a later
// try, or a dead letter.
//
// A message is never marked as done before its work has succeeded. If the mark came first and the
// consumer died after it, the message would be lost.
//
// This package imports no broker. Adapters provide the sources (RabbitMQ, NATS JetStream, Kafka,
// Redis streams, RocketMQ), and package memqueue provides one in memory.
package mqidem
