// Package idgen makes ids that are unique without asking anybody for each: of 63 bits, which sort
// by time ([Snowflake], [Buffered]), those of a tag from ranges that a database gives ([Segment]),
// and UUIDs of version 7 ([UUIDv7]).
//
// An id of 63 bits is a time, the number of the worker that made it, and a sequence. Two ids are
// the same only if two makers have one worker number and one time. A number in a configuration file
// ([Static]) leaves that to people. [Workers] leases the numbers in any store of this project, or
// in ZooKeeper (adapters/zklock), and does not rely on leases alone: a holder makes only ids whose
// time is below a reservation that is stored with its lease, and the next holder of the number
// starts above it. Their times are apart, whatever becomes of clocks, pauses and lost leases, on a
// store that keeps what it confirms; Claim refuses others.
//
//	workers := idgen.NewWorkers(store, nil)
//	held, err := workers.Claim(ctx)
//	ids, err := idgen.NewSnowflake(held, nil)
//	id, err := ids.Next(ctx)
//
// Ids tell when they were made and, to who sees two, how many were made in between. They are no
// secrets and no keys of requests.
package idgen
