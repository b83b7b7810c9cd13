// Package mqtest is the contract of sources and parking queues as a suite: mqidem.Consume relies on
// each clause. An adapter's tests call Run with its real broker.
package mqtest
