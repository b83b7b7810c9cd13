// Package retrysafe has what options of v0.1.0 need.
package retrysafe

import "time"

type (
	Engine struct{}
	Policy struct{ Wait int64 }
	Rate   struct{ PerSecond float64 }
)

// PolicyWith takes options as each call does.
func (*Engine) PolicyWith(...CallOption) (Policy, error) { return Policy{}, nil }

type CallOption interface{ apply() }

type Call struct {
	Fingerprint            []byte
	FingerprintRule        uint8
	Binding                []byte
	Account                string
	Detached, MustBeIssued bool
	SignedUntil            time.Time
	Life                   time.Duration
}

func (*Call) apply() {}

type attached struct{}

func (attached) apply() {}

func Attached() CallOption { return attached{} }
