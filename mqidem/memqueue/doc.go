// Package memqueue is a broker in memory, for tests, examples and demonstrations: queues with acks,
// later tries and a parking queue, as the adapters have them on real brokers. What it holds is gone
// when the process ends.
package memqueue
