// Package redis tests the store on Redis, with both clients: a single server, a primary with a
// replica and Sentinel, and a cluster, while servers are killed and replies are lost.
package redis
