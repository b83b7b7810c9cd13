package lock

import "errors"

// The errors of this package. Calls return them wrapped; test with errors.Is.
var (
	// ErrHeld: another owner has the lock. Wait with Lock, or try later.
	ErrHeld = errors.New("lock: another holder has it; nothing was done; wait with Lock, or try again later")
	// ErrLost: the lock is not this holder's any more, and another one may have it.
	ErrLost = errors.New("lock: the lock is lost, and another holder may work by now; write nothing more, and check the fence where you have written")
	// ErrBound: the lock was held for MaxHold, and its heartbeats have ended.
	ErrBound = errors.New("lock: held for as long as MaxHold allows; its lease is left to end; raise MaxHold or call Extend for longer work")
	// ErrReleased: this holder has released it.
	ErrReleased = errors.New("lock: the lock was released by its holder")
	// ErrName: the name is empty, too long, or has a NUL.
	ErrName = errors.New("lock: a name has 1 to 200 bytes and no NUL; hash a longer one")
	// ErrClosed: the locker was shut down.
	ErrClosed = errors.New("lock: the locker was shut down")
)
