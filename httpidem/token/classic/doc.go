// Package classic has the one-time tokens and the lock that are often written by hand on Redis,
// each as one atomic script. It is for programs that use such snippets and want correct ones.
//
// None of them knows the outcome of the work. [Deletion] and [Count] suppress duplicates: a
// duplicate is refused, also if the work failed, and does not get the first answer. [Lock] keeps
// two callers from working at the same time, and suppresses nothing after it is released. The
// documentation of each says what it does not protect against. Package token has none of these
// gaps, on the same Redis: token.Do lets a token run again if its work has certainly done nothing,
// and replays the first answer to a duplicate.
//
// All keys are under [Options.Prefix], apart from records.
package classic
