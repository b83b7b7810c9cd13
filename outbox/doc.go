// Package outbox writes messages in the caller's transaction and publishes them behind its commit:
// a message is sent if and only if what it tells of was committed.
//
//	box, err := outbox.New(db, outbox.PostgreSQL, nil)
//	err = box.Migrate(ctx)
//	// in a transaction:
//	err = box.Add(ctx, dbtx.SQL(tx, outbox.PostgreSQL), outbox.Message{Topic: "orders", Key: "ann", Payload: body})
//	// in one or more processes:
//	relay, err := outbox.NewRelay(box, publisher, nil)
//	err = relay.Run(ctx)
//
// # What is promised
//
// Every message of a committed transaction is published at least once, and none of another. Repeats
// carry the same [Message].ID.
//
// For one key: whoever drops the ids that he has seen sees the messages in the order in which they
// were added. One Add keeps the order of its messages; of two transactions the order is that of
// their Adds where the second began to add after the first had committed, which a row that both
// lock before they add brings about. Transactions that add to one key at the same time have no
// order between them, and may be published in either. Keys have no order between them, topics
// neither: the order of a key is one over all topics.
//
// A message that fails holds up its key and no other. docs/outbox.md has the rest.
//
// # How
//
// Keys are spread over [Partitions]; each is published by one relay at a time, which holds a lease.
// There is no cursor: a row is pending until it was published, so that one which commits late is
// not passed over.
package outbox
