// Package locktest says what a backend of package lock must do, and finds out whether one does:
// [Run] it in a test of the backend, on the real server.
//
//	L1   one holder at a time, and each with a greater fence than the one before
//	L2   who comes second is told at once
//	L3   a try that is repeated by the holder is granted again, with the same fence and a new lease
//	L4   fences grow through release, and across the end of a lease or a session
//	L5   only the holder can unlock
//	L6   only the holder can extend, and no lease gets shorter
//	L7   a lock whose holder says nothing any more is free after its lease, and not before; or with the session that it hung on
//	L8   who waits is woken, also where the lock was released before the wait began
//	L9   a wait ends with its context, and leaves nothing behind once it is given up
//	L10  names are bytes: none is cut, folded or trimmed
//	L11  a call whose context has ended locks nothing
package locktest
