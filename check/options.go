package check

import (
	"crypto/tls"
	"time"
)

// Options are how an examination is done. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Allow has hosts, without ports, that may be examined although they are not on the loopback
	// interface.
	Allow []string
	// Only has the checks that are done; empty: all. Skip has those that are left out.
	Only, Skip []string
	// MaxRequests bounds the requests that are sent. Default: 650.
	MaxRequests int
	// Rate bounds the requests a second, save the burst of one check. Default: 100.
	Rate float64
	// Patience is how long the checker waits for an effect, for the end of a request that runs, and
	// for a service that starts again. Default: 30 s.
	Patience time.Duration
	// Settle is how long the checker looks whether one effect more comes. It looks longer where
	// effects came later than their answers. Default: 150 ms.
	Settle time.Duration
	// Wait is the longest time that a check waits for an answer to expire. Default: 1 min.
	Wait time.Duration
	// TLS is how the API is reached over https. Nil: the certificates of the machine.
	TLS *tls.Config
	// OnEvent is called before and after each check. Calls do not overlap.
	OnEvent func(Event)
}

// Event is a step of an examination.
type Event struct {
	// Index is the check's number from 1 to Total.
	Index, Total int
	// Check is the check that begins or ended.
	Check *Check
	// Result is nil when the check begins.
	Result *Result
}

// withDefaults returns a copy of o in which each number is set.
func (o *Options) withDefaults() Options {
	var own Options
	if o != nil {
		own = *o
	}
	setTo(&own.MaxRequests, 650)
	setTo(&own.Rate, 100)
	setTo(&own.Patience, 30*time.Second)
	setTo(&own.Settle, 150*time.Millisecond)
	setTo(&own.Wait, time.Minute)
	return own
}

func setTo[T int | float64 | time.Duration](p *T, value T) {
	if *p <= 0 {
		*p = value
	}
}
