package retrysafe

import "time"

// Call is several options in one, for callers on a hot path: a pointer to it is an option. Zero
// fields change nothing.
type Call struct {
	// Fingerprint is as in [WithFingerprint].
	Fingerprint []byte
	// FingerprintRule tells fingerprints of different rules apart, 1 to 127; they are not compared.
	// Zero: there is only one rule.
	FingerprintRule uint8
	// Binding is as in [WithBinding].
	Binding []byte
	// Account is as in [WithAccount].
	Account string
	// Detached is as in the function [Detached].
	Detached bool
	// MustBeIssued is as in the function [MustBeIssued].
	MustBeIssued bool
	// SignedUntil is for a key whose signature stands for having been issued: until then, by the
	// store's clock, the store need not know it. It counts with MustBeIssued.
	SignedUntil time.Time
	// Life is that of issued keys. A record is kept for a minute longer at least, so that a key
	// that was given back can be used again.
	Life time.Duration
}

func (c *Call) apply(o *callOptions) {
	if c.Fingerprint != nil {
		o.give(c.Fingerprint)
		if c.FingerprintRule != 0 && len(o.fingerprint) > 0 {
			o.fingerprint[0] = fingerprintOfRules | c.FingerprintRule
		}
	}
	if c.Binding != nil {
		o.binding = c.Binding
	}
	if c.Account != "" {
		o.account = KeyPart(c.Account)
	}
	o.detached = o.detached || c.Detached
	if c.MustBeIssued {
		o.issued = issued{must: true, signedUntil: c.SignedUntil, life: c.Life}
	}
}
