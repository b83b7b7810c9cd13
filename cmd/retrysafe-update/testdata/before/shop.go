package shop

import (
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	idem "github.com/retrysafe/retrysafe/httpidem"
)

type settings struct {
	idem.Options
	Name string
}

// Guards returns what guards the routes of the shop.
func Guards(e *retrysafe.Engine) []*idem.Middleware {
	one := idem.New(e, &idem.Options{Tenant: idem.Global, Key: idem.Required, MaxBody: 1 << 20, KeyHeader: []string{"X-Key"}, MinKey: 8})
	two := idem.New(e, &idem.Options{
		Tenant:  idem.Global,
		Key:     idem.Fields,
		Fields:  []string{"poll"},
		Rule:    fingerprint.Rule{Ignore: []string{"note"}},
		Rate:    retrysafe.Rate{PerSecond: 2},
		Account: func(r *http.Request) string { return r.Host },
		Operation: func(r *http.Request) string {
			o := idem.Options{KeepCookies: true}
			o.Succeed.Status = http.StatusCreated
			return o.Docs
		},
	})
	three := idem.New(e, &idem.Options{
		Tenant: idem.Global, // the shop has no users
		// A form brings its key.
		FormKey: true,
		MinKey:  22,
		Policy:  retrysafe.Policy{Wait: 1}, // the second click waits
	})
	var o idem.Options
	o.MaxBody, o.KeepAnswer = 10, idem.KeepNever
	p := &o
	p.Methods = append(p.Methods, http.MethodPut)
	s := settings{Options: idem.Options{After5xx: idem.After5xxKeep}}
	s.BodyTime = 7
	for _, more := range []*idem.Options{{Tenant: idem.Global, Docs: "https://example.com/"}, {KeepCookies: true}} {
		_ = more.MinKey
	}
	return []*idem.Middleware{one, two, three, idem.New(e, p), idem.New(e, &s.Options)}
}

func policies(e *retrysafe.Engine, sum []byte, until time.Time, detached bool) {
	_, _ = e.PolicyWith(retrysafe.Attached(), &retrysafe.Call{Fingerprint: sum, Account: "ann"})
	_, _ = e.PolicyWith(&retrysafe.Call{
		Fingerprint:     sum,
		FingerprintRule: 3,
		Binding:         []byte("secret"),
		Detached:        true,
		MustBeIssued:    true,
		SignedUntil:     until,
		Life:            time.Hour,
	})
	_, _ = e.PolicyWith(&retrysafe.Call{MustBeIssued: true}, &retrysafe.Call{Life: time.Hour})
	_, _ = e.PolicyWith(&retrysafe.Call{})
}
