// Package classic has the one-time tokens and the lock that are usually written around Redis, each
// as one atomic script, for programs that come from such snippets and want them right.
//
// None of them knows how the work ended. [Deletion] and [Count] suppress repeats: a repeat is
// refused, also where the work failed, and nobody is told the first answer. [Lock] keeps two from
// working at the same time, and suppresses nothing once it is given back. What each does not
// protect against is said there. Package token closes these holes on the same Redis: token.Do lets
// a token whose work has certainly done nothing run again, and tells a repeat the first answer.
//
// What is kept stands under [Options.Prefix], apart from records.
package classic
