package retrysafe

import "time"

// Call sets several options at once, for callers on a hot path. A *Call is a [CallOption]. Zero
// fields change nothing.
type Call struct {
	// Fingerprint is the digest that [WithFingerprint] sets.
	Fingerprint []byte
	// FingerprintRule is the number of the rule that made the fingerprint, 1 to 127. Fingerprints
	// of different rules are not compared. Zero means that there is only one rule.
	FingerprintRule uint8
	// Binding is the credential that [WithBinding] sets.
	Binding []byte
	// Account is the account that [WithAccount] sets.
	Account string
	// Detached does the same as the function [Detached].
	Detached bool
	// MustBeIssued does the same as the function [MustBeIssued].
	MustBeIssued bool
	// SignedUntil is for a key whose signature proves that the server issued it: until this time,
	// by the store's clock, the store need not know the key. It counts only with MustBeIssued.
	SignedUntil time.Time
	// Life is how long issued keys may be used for the first time. Their records are kept for at
	// least a minute longer, so that a key that was released can be used again.
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
