// Package outbox writes messages in the caller's transaction and publishes them after the commit. A
// message is sent if and only if the change that it reports was committed.
//
//	box, err := outbox.New(db, outbox.PostgreSQL, nil)
//	err = box.Migrate(ctx)
//	// in a transaction:
//	err = box.Add(ctx, dbtx.SQL(tx, outbox.PostgreSQL), outbox.Message{Topic: "orders", Key: "ann", Payload: body})
//	// in one or more processes:
//	relay, err := outbox.NewRelay(box, publisher, nil)
//	err = relay.Run(ctx)
//
// # Guarantees
//
// Every message of a committed transaction is published at least once, and no message of any other
// transaction is. Duplicates carry the same [Message].ID.
//
// Order holds for one key: a consumer that drops ids that it has seen gets the messages in the
// order in which they were added. One Add keeps the order of its messages. Two transactions are in
// the order of their Adds if the second began to add after the first had committed. A row that both
// lock before they add ensures that. Transactions that add to one key at the same time have no
// order, and may be published in either. There is no order between keys. Topics do not matter: the
// order of a key holds across all topics.
//
// A message that fails holds up its key and no other. docs/outbox.md has the details.
//
// # How it works
//
// Keys are spread over [Partitions]. One relay at a time publishes a partition, and holds a lease
// on it. There is no cursor: a row is pending until it is published, so a row that commits late is
// not skipped.
package outbox
