// Package memqueue is a broker in memory, for tests, examples and demonstrations. Its queues have
// acks, later tries and a dead-letter queue, as the adapters have them on real brokers. All
// messages are lost when the process ends.
package memqueue
