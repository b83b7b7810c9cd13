package lock

import "errors"

// The errors of this package. Calls return them wrapped; test with errors.Is.
var (
	// ErrHeld means that another owner has the lock. Wait with Lock, or try later.
	ErrHeld = errors.New("lock: another holder has it; nothing was done; wait with Lock, or try again later")
	// ErrLost means that this holder has lost the lock, and that another one may have it.
	ErrLost = errors.New("lock: the lock is lost, and another holder may work by now; write nothing more, and check the fence where you have written")
	// ErrMaxHold means that the lock was held for MaxHold, and that its heartbeats have stopped.
	ErrMaxHold = errors.New("lock: held for as long as MaxHold allows; its lease is left to end; raise MaxHold or call Extend for longer work")
	// ErrReleased means that this holder has released the lock.
	ErrReleased = errors.New("lock: the lock was released by its holder")
	// ErrName means that the name is empty, too long, or contains a NUL.
	ErrName = errors.New("lock: a name has 1 to 200 bytes and no NUL; hash a longer one")
	// ErrClosed means that the locker was shut down.
	ErrClosed = errors.New("lock: the locker was shut down")
)
