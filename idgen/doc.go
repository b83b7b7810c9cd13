// Package idgen makes unique ids without a request to a server for each: ids of 63 bits that sort
// by time ([Snowflake], [Buffered]), ids of a tag from ranges that a database assigns ([Segment]),
// and UUIDs of version 7 ([UUIDv7]).
//
// An id of 63 bits consists of a time, the number of the worker that made it, and a sequence. Two
// ids are equal only if two generators use the same worker number and the same time. With a number
// from a configuration file ([Static]), the operator must prevent that. [Workers] leases the
// numbers in any store of this project, or in ZooKeeper (adapters/zklock), and does not rely on
// leases alone. A holder makes only ids whose time is below a reservation that is stored with its
// lease, and the next holder of the number starts above it. So their times never overlap, despite
// clock changes, pauses and lost leases, if the store keeps what it confirms; Claim refuses other
// stores.
//
//	workers := idgen.NewWorkers(store, nil)
//	held, err := workers.Claim(ctx)
//	ids, err := idgen.NewSnowflake(held, nil)
//	id, err := ids.Next(ctx)
//
// An id shows when it was made. Two ids show how many were made in between. Ids are not secrets,
// and not keys of requests.
package idgen
