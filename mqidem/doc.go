// Package mqidem makes consumers of messages do their work once.
//
// A broker delivers a message at least once: the consumer died before its ack, was too slow, or the
// producer sent again since it saw no confirmation. [Once] keeps a record for each message and
// consumer, so that the work is not done again; [OnceTx] keeps it in the transaction of the effect,
// so that the effect happens exactly once. [Consume] takes messages from a [Source], runs such a
// handler, and deals with what comes back: acks, a later try, the dead letter.
//
// A message is never marked as done before its work has succeeded: a mark that is set first loses
// the message when the consumer dies behind it.
//
// No broker is imported here: adapters bring the sources (RabbitMQ, NATS JetStream, Kafka, Redis
// streams), and package memqueue is one in memory.
package mqidem
