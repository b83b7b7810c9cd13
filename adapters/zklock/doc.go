// Package zklock keeps locks of package lock in ZooKeeper 3.5 or newer.
//
//	backend, err := zklock.Open(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, nil)
//	locks := lock.New(backend, nil)
//
// A lock is a queue of ephemeral nodes under a parent with the lock's name. A node's name has a
// number from the server and the owner's id. The first node has the lock. Each other one watches
// the node before it, so a release wakes one waiter. Locks are granted in the order of arrival,
// also between processes. A free lock costs a create, a list and a delete.
//
// Unlike a lease, a lock ends with the session ([Options].Session), which heartbeats of the client
// keep alive. Only the server can end a session, and it cannot notify a client that it cannot
// reach. So a holder counts the lock as lost when it has not heard from the server for two fifths
// of the session's time; [lock.Locker] takes care of that. The rest allows for delays between the
// servers, and for clocks.
//
// Fences are ZooKeeper's transaction ids. They grow over all names and all time of one ensemble,
// and start again with an ensemble that starts without its data. They are smaller than the fences
// of other backends, which are microseconds: a resource that has seen those refuses these.
//
// [NewWorkers] provides worker numbers for the ids of package idgen; such a lock holds each number.
//
// All servers of an ensemble must have the same limits of a session's time (minSessionTimeout,
// maxSessionTimeout).
//
// The client, go-zookeeper/zk v1.0.4, has a data race when it reconnects. Tests with the race
// detector report it unless they are run with -gcflags=github.com/go-zookeeper/zk=-race=false. The
// race is in the read of the number of the last change that the client saw. At worst the client
// asks for a few events too many.
//
// Source: the recipe for locks in the ZooKeeper documentation, with the owner's id in the node's
// name, as its page of recipes demands, and a check that the own node is in the list.
package zklock
