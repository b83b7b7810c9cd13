// Package lock holds a name for one process at a time: [Locker] on a [Backend], which is a server
// or this process's memory.
//
//	locks := lock.New(backend, nil)
//	err := locks.With(ctx, "account/42", func(ctx context.Context, held *lock.Lock) error {
//		// work with ctx, and give held.Fence() to each write
//	})
//
// A lock that ends by time, as one must that outlives its holder's death, cannot stop a holder that
// was paused: it may wake when another one has the lock, and write. [Lock.Context] and [Lock.Done]
// tell a holder that runs. Only the fence stops one that does not: a number that grows with each
// holder, checked by the resource that is written to (guard.Fence does it for a row of a database).
//
// A lock is not idempotency. It keeps two from working at once; it knows nothing of what was done
// before. A second request that comes when the first has ended finds the lock free, and so does a
// retry whose first answer was lost. For these there is the engine of package retrysafe, which
// needs no lock beside it.
//
// Source: Martin Kleppmann, "How to do distributed locking" (2016).
package lock
