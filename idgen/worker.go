package idgen

import (
	"fmt"
	"time"
)

// Worker is a number that nobody else has at the times between its bounds. [Static] is one, and
// what [Workers] leases. Its methods may be called concurrently.
type Worker interface {
	// Number is the worker's part of its ids.
	Number() uint64
	// From is the first time that ids may have; it does not change.
	From() time.Time
	// Until is the time that ids must stay below, in nanoseconds since 1970. It grows while the
	// number is held.
	Until() int64
}

// Static is a number from a configuration file, good for ever. That no two processes have one is up
// to those who hand them out, and so is the clock across a restart: a process whose clock was set
// back makes ids again that it has made before.
func Static(number uint64) Worker { return static(number) }

type static uint64

// forever is the Until of a number that is not leased.
const forever = 1<<63 - 1

func (s static) Number() uint64  { return uint64(s) }
func (s static) From() time.Time { return time.Time{} }
func (s static) Until() int64    { return forever }
func (s static) String() string  { return fmt.Sprintf("worker %d, not leased", uint64(s)) }
