// Package mqtest tests the contract of sources and dead-letter queues. mqidem.Consume relies on
// each clause. The tests of an adapter call Run with its real broker.
package mqtest
