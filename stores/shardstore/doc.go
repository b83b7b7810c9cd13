// Package shardstore distributes records over a fixed list of stores, so that one database need not
// hold them all. Each key has one home, in every process: a function of the application, or
// rendezvous hashing over the names of the stores.
//
// A shard that does not answer makes its keys unavailable; they are never sent to another shard.
//
// Run the transaction of retrysafe.DoTx on the database of the key: [NewTx] finds it, and
// [Store.Home] returns its name.
//
// Keys do not move while the system runs. Engines made for that move them without their users
// noticing: the slots of Redis Cluster, partitions of PostgreSQL, Citus, Vitess, TiDB. To change
// the list, see [ChangeList] and docs/stores.md.
package shardstore
