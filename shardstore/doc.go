// Package shardstore keeps records in several stores, so that one database need not hold them all:
// each key has one home.
//
// A [Map] says which shard that is: the text of the key and the names of the shards decide, so that
// all processes agree, and a change of the shards moves no more keys than it has to. Maps are
// numbered and kept in every shard, as records of a [retrysafe.Store]: any store can be a shard.
//
// Whatever a shard does, no key is ever run twice for it: a shard that does not answer makes its
// keys unavailable, and they are never sent to another one. While [Change] moves keys, a key that
// moves is claimed at its old home first and then at the new one, and both have to let it in.
// docs/design.md says why no process has to stop for it.
//
// The transaction of DoTx belongs on the database of the key: [Store.Home] names it.
package shardstore
