// Package locktest specifies what a backend of package lock must do, and tests it. Call [Run] in a
// test of the backend, on the real server.
//
//	L1   one holder at a time, and each with a greater fence than the one before
//	L2   another caller gets ErrHeld at once
//	L3   a try that the holder repeats is granted again, with the same fence and a new lease
//	L4   fences grow through release, and across the end of a lease or a session
//	L5   only the holder can unlock
//	L6   only the holder can extend, and no lease gets shorter
//	L7   a lock whose holder sends nothing is free after its lease, and not before; or with the session that it depends on
//	L8   a waiter is woken, also if the lock was released before the wait began
//	L9   a wait ends with its context, and leaves nothing once it is given up
//	L10  names are bytes: none is cut, folded or trimmed
//	L11  a call whose context has ended locks nothing
//	L12  a backend that lists shows each lock that is held, with the holder's fence, and no other
//	L13  a backend that passes locks gives the holder's to the next owner, with a greater fence, and no other
package locktest
