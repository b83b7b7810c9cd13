// Package watermillidem makes handlers of Watermill's router do their work once, on any store of
// retrysafe and across processes.
//
// It stands where Watermill's own Deduplicator does, which marks a message as seen before its
// handler has succeeded: a message whose handler fails is dropped when it comes again. Here it runs
// again, and a message that was done gives the messages that the handler produced then, so that
// those are published even if the first consumer died before it could.
package watermillidem
