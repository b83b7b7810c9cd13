// Package lock lets one process at a time hold a name: a [Locker] on a [Backend], which is a server
// or this process's memory.
//
//	locks := lock.New(backend, nil)
//	err := locks.With(ctx, "account/42", func(ctx context.Context, held *lock.Lock) error {
//		// work with ctx, and give held.Fence() to each write
//	})
//
// A lock that must end when its holder dies ends by time. Such a lock cannot stop a holder that was
// paused: the holder may wake when another one has the lock, and write. [Lock.Context] and
// [Lock.Done] notify a holder that runs. Only the fence stops one that does not. It is a number
// that grows with each holder, and the resource that is written to checks it (guard.Fence does so
// for a row of a database).
//
// A lock does not give idempotency. It keeps two holders from working at the same time, but it does
// not know what was done before. A second request that comes after the first has finished finds the
// lock free. So does a retry whose first answer was lost. The engine of package retrysafe handles
// both, and needs no lock.
//
// Source: Martin Kleppmann, "How to do distributed locking" (2016).
package lock
