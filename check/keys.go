package check

import (
	"context"
	"strings"
)

var missingKey = &Check{
	ID: "missing-key", Title: "a request without a key is refused or acts", Severity: Critical, Requests: 2,
	Sends: []string{"The request without a key, twice."},
	Why:   "An old client does not know of keys.",
	Wrong: []string{"A request without a key is answered with success and nothing takes effect, as when all of them share one key."},
	Fix:   "Refuse with 400 where a key is required; else treat each request as an operation of its own.",
	run: func(ctx context.Context, s *session) finding {
		return s.checkKeyless(ctx, "without a key", func(op operation) operation { return op.withKeys() })
	},
}

var emptyKey = &Check{
	ID: "empty-key", Title: "an empty key is not a key", Severity: Critical, Requests: 2,
	Sends: []string{"The request with an empty field for the key, twice."},
	Why:   "A template without its value: all requests of all customers carry the same empty key.",
	Wrong: []string{"The second request gets the answer of the first: everybody with an empty key shares one answer."},
	Fix:   "Refuse an empty key with 400.",
	run: func(ctx context.Context, s *session) finding {
		return s.checkKeyless(ctx, "with an empty key", func(op operation) operation { return op.withKeys("") })
	},
}

// checkKeyless sends two operations without a key that tells them apart.
func (s *session) checkKeyless(ctx context.Context, how string, keyed func(operation) operation) finding {
	effects := s.newEffectCounter(ctx)
	first := s.sendAndShow(ctx, "a request "+how, keyed(s.newOperation()))
	second := s.sendAndShow(ctx, "another request "+how, keyed(s.newOperation()))
	switch {
	case first.isFailure() || second.isFailure():
		return brokenFinding(Serious, "requests %s are answered %s and %s", how, &first, &second)
	case first.isRefusal() && second.isRefusal():
		return passedFinding("a request %s is refused with %s", how, &first)
	case !first.isSuccess() || !second.isSuccess():
		return notedFinding("requests %s are answered %s and %s", how, &first, &second)
	}
	switch n := effects.awaitCount(ctx, 2); {
	case n < 2:
		return brokenFinding(Critical, "two requests %s were answered with success and took effect %s", how, timesText(n))
	case n > 2:
		return brokenFinding(Critical, "two requests %s took effect %s", how, timesText(n))
	case !effects.isCounting() && first.equals(&second) && s.distinct:
		return brokenFinding(Critical, "two requests %s got the same answer", how)
	case !effects.isCounting() && !s.distinct:
		return undecidedFinding(needOracle, "the answers do not show whether both requests %s acted", how)
	}
	return notedFinding("requests %s act each time: such clients are not protected", how)
}

var quotedKey = &Check{
	ID: "quoted-key", Title: "a key in quotes is handled", Severity: Serious, Requests: 2,
	Sends: []string{"One request with the key as it is.", `The same request with the key in double quotes, as the IETF draft writes it.`},
	Why:   "Clients of one system follow the draft, others do not.",
	Wrong: []string{"A quoted key is answered with 500 or above."},
	Fix:   "Parse the field as a structured string, and accept it without quotes.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		bare := strings.Trim(op.keys[0], `"`)
		other := `"` + bare + `"`
		if other == op.keys[0] {
			other = bare
		}
		second := s.sendAndShow(ctx, "the same request, its key written the other way", op.withKeys(other))
		switch {
		case second.isFailure():
			return brokenFinding(Serious, "a key in quotes is answered %s", &second)
		case second.isRefusal():
			return notedFinding("only one way to write a key is accepted; the other is refused with %s", &second)
		case !effects.isCounting():
			return undecidedFinding(needOracle, "whether a key and the same key in quotes are one key is not known")
		case effects.awaitCount(ctx, 1) > 1:
			return notedFinding("a key and the same key in quotes are two keys")
		}
		return passedFinding("a key and the same key in quotes are one key")
	},
}

var doubledKey = &Check{
	ID: "doubled-key", Title: "two keys are refused", Severity: Serious, Requests: 1,
	Sends: []string{"One request with two lines of the key's field, each with another key."},
	Why:   "A proxy adds a key where there is one. If one part of the system takes the first and another part the last, a duplicate gets through.",
	Wrong: []string{"The request is accepted."},
	Fix:   "Refuse a request with more than one key with 400.",
	run: func(ctx context.Context, s *session) finding {
		op := s.newOperation()
		r := s.sendAndShow(ctx, "a request with two keys", op.withKeys(s.newKey(), s.newKey()))
		switch {
		case r.isSuccess():
			return brokenFinding(Serious, "a request with two different keys is answered %s", &r)
		case r.isFailure():
			return brokenFinding(Serious, "a request with two keys is answered %s in place of a refusal", &r)
		case !r.isRefusal():
			return undecidedFinding("", "a request with two keys got %s", &r)
		}
		return passedFinding("a request with two keys is refused with %s", &r)
	},
}

var longKey = &Check{
	ID: "long-key", Title: "a long key is refused or kept whole", Severity: Critical, Requests: 2,
	Sends: []string{"Two requests with keys of 256 characters that differ in the last one."},
	Why:   "A column of 255 characters that cuts what is longer makes two keys one.",
	Wrong: []string{
		"The second request is answered with success and does not act: the key was cut.",
		"A long key is answered with 500 or above.",
	},
	Fix: "Refuse keys that are too long with 400, or store a digest of the key.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.newEffectCounter(ctx)
		base := newToken(128)[:255]
		op := s.newOperation()
		first := s.sendAndShow(ctx, "a request with a key of 256 characters", op.withKeys(base+"a"))
		second := s.sendAndShow(ctx, "a request whose key differs in the last character", op.withKeys(base+"b"))
		switch {
		case first.isFailure() || second.isFailure():
			return brokenFinding(Serious, "a key of 256 characters is answered %s and %s", &first, &second)
		case first.isRefusal() && second.isRefusal():
			return passedFinding("a key of 256 characters is refused with %s", &first)
		case !first.isSuccess() || !second.isSuccess():
			return notedFinding("keys of 256 characters are answered %s and %s", &first, &second)
		case effects.awaitCount(ctx, 2) < 2, !effects.isCounting() && s.distinct && first.equals(&second):
			return brokenFinding(Critical, "two keys of 256 characters that differ in the last one are taken for one")
		case !effects.isCounting() && !s.distinct:
			return undecidedFinding(needOracle, "the answers do not show whether both requests acted")
		}
		return passedFinding("keys of 256 characters are kept whole")
	},
}
