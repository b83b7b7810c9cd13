// Package shardstore distributes records over several stores, so that one database need not hold
// them all. Each key has one home.
//
// A [Map] says which shard is the home of a key. It is computed from the text of the key and the
// names of the shards. So all processes agree, and a change of the shards moves no more keys than
// necessary. Maps are numbered and stored in every shard, as records of a [storeapi.Store]: any
// store can be a shard.
//
// No failure of a shard makes a key run twice. A shard that does not answer makes its keys
// unavailable; they are never sent to another shard. While [Change] moves keys, a moving key is
// claimed at its old home first and then at the new one, and both claims must succeed.
// docs/design.md says why no process has to stop for a change.
//
// Run the transaction of DoTx on the database of the key: [Store.Home] returns its name.
package shardstore
