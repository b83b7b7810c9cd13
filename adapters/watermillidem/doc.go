// Package watermillidem makes handlers of Watermill's router do their work once, on any store of
// retrysafe and across processes.
//
// It replaces Watermill's own Deduplicator. That one marks a message as seen before its handler has
// succeeded, so it drops the redelivery of a message whose handler failed. Here such a message runs
// again. A duplicate of a finished message returns the messages that its handler produced, so they
// are published even if the first consumer died before it could.
package watermillidem
