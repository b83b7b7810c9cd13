package idgen

import (
	"fmt"
	"time"
)

// Worker is a worker number that no other process has for the times between From and Until.
// [Static] returns one, and [Workers] leases them. Its methods can be called concurrently.
type Worker interface {
	// Number returns the worker's part of its ids.
	Number() uint64
	// From returns the first time that ids may have. It does not change.
	From() time.Time
	// Until returns the time that ids must stay below; zero: there is no such time. It grows while
	// the number is held.
	Until() time.Time
}

// Static returns a worker with a number from a configuration file, without a time limit. The
// operator must make sure that no two processes have the same number, and that the clock does not
// go back across a restart: otherwise a process makes ids again that it has made before.
func Static(number uint64) Worker { return staticWorker(number) }

type staticWorker uint64

func (s staticWorker) Number() uint64   { return uint64(s) }
func (s staticWorker) From() time.Time  { return time.Time{} }
func (s staticWorker) Until() time.Time { return time.Time{} }
func (s staticWorker) String() string   { return fmt.Sprintf("worker %d, not leased", uint64(s)) }
