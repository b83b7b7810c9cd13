// Package brokers contains the tests of consumers on real brokers, with processes that are killed.
// It has no code for users.
package brokers
