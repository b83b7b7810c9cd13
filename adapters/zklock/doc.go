// Package zklock keeps locks of package lock in ZooKeeper 3.5 or newer.
//
//	backend, err := zklock.Open(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, nil)
//	locks := lock.New(backend, nil)
//
// A lock is a queue of nodes under a parent of its name, each ephemeral, with a number that the
// server gives and the owner's id: the first one has the lock, and each of the others watches the
// one before it, so that a release wakes one waiter. Locks are given in the order of coming,
// between processes too. One that is free costs a create, a list and a delete.
//
// What differs from a lease: a lock ends with the session ([Options].Session), which heartbeats of
// the client keep. Only the server can end a session, and it tells nobody that it cannot reach. So
// a holder here counts itself lost when it has not heard of the server for two fifths of the
// session's time, which [lock.Locker] sees to; the rest is for what the servers tell each other
// late, and for clocks.
//
// Fences are ZooKeeper's transaction ids. They grow over all names and all time of one ensemble,
// and begin anew with an ensemble that begins without its data. They are smaller than the fences of
// other backends, which are microseconds: a resource that has seen those refuses these.
//
// [NewWorkers] has worker numbers for the ids of package idgen, each held by such a lock.
//
// All servers of an ensemble must have the same limits of a session's time (minSessionTimeout,
// maxSessionTimeout).
//
// The client, go-zookeeper/zk v1.0.4, has a data race of its own when it connects again; tests with
// the race detector see it unless they are run with
// -gcflags=github.com/go-zookeeper/zk=-race=false. It reads the number of the last change that it
// saw, and asks for a few events too many at worst.
//
// Source: the recipe for locks in the ZooKeeper documentation, with the owner's id in the name that
// its own page of recipes asks for, and a check that the own node is in the list.
package zklock
