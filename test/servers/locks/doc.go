// Package locks tests locks, fences, ids and rates on Redis, SQL databases and ZooKeeper.
package locks
