package httpidem

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// Age refuses requests of guarded methods by the time that they carry: 400 time-refused, before
// anything is looked up or run, also for duplicates of finished work. It stops an attacker from
// replaying a recorded request later, as long as the attacker cannot change it: a signature, or at
// least TLS, has to protect the time. Clients that retry must give each try a new time, and must
// not let it be part of a key.
type Age struct {
	// Field says where the time is: "header:Date", "query:ts", or "timestamp" or "$.meta.sentAt" in
	// a JSON body or (a single name) a form. If clients send the keys, it must be a header, since a
	// key is bound to query and body. Under Params and Fields, exclude the field with the Rule. The
	// time is RFC 3339, an HTTP date, or whole seconds, milliseconds, microseconds or nanoseconds
	// since 1970: 10, 13, 16 or 19 digits.
	Field string
	// Max is how old a request may be, and how far ahead its clock may be. Required; at least 5 s,
	// since clocks differ.
	Max time.Duration
	// Now returns the time to compare with; default [time.Now].
	Now func() time.Time
}

// leastAge allows for clocks that are kept by NTP and for a slow line.
const leastAge = 5 * time.Second

// isInHeader reports whether the time is in a header.
func (a *Age) isInHeader() bool {
	f, err := reqfield.Parse(a.Field)
	return err == nil && f.InHeader()
}

func (a *Age) validate() error {
	if _, err := reqfield.Parse(a.Field); err != nil || a.Max < leastAge {
		return errors.Join(err, fmt.Errorf("Age has the field %q and Max %v; name the field with the time, for example header:Date, and %v or more",
			a.Field, a.Max, leastAge))
	}
	return nil
}

// ageLimit is a compiled Age.
type ageLimit struct {
	field reqfield.Field
	max   time.Duration
	now   func() time.Time
}

func (a *Age) compile() *ageLimit {
	if a == nil {
		return nil
	}
	field, err := reqfield.Parse(a.Field)
	if err != nil {
		panic(err) // validated before
	}
	c := &ageLimit{field: field, max: a.Max, now: a.Now}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// check refuses a request that is too old, too far ahead, or does not say when it was made.
func (a *ageLimit) check(r *http.Request, body []byte) *Problem {
	if a == nil {
		return nil
	}
	text, err := a.field.Of(reqfield.In(r, body))
	if err != nil {
		return timeProblem(err, "It does not say in the one place for it when it was made.")
	}
	made, ok := parseTime(text)
	if !ok {
		return timeProblem(errors.New("the time has none of the known forms"), "Its time is neither RFC 3339 nor a date of HTTP nor seconds or milliseconds since 1970.")
	}
	switch age := a.now().Sub(made); {
	case age > a.max:
		return timeProblem(fmt.Errorf("it was made %v ago", age), "It was made too long ago. Make it again, with the time of now.")
	case age < -a.max:
		return timeProblem(fmt.Errorf("it will be made in %v", -age), "Its time lies ahead: set the clock.")
	}
	return nil
}

func timeProblem(cause error, detail string) *Problem {
	p := problemFor(retrysafe.CodeTimeRefused, cause)
	p.Detail = detail + " Nothing was done."
	return p
}

// parseTime parses a time in the forms that clients use.
func parseTime(s string) (time.Time, bool) {
	if strings.Trim(s, "0123456789") == "" {
		n, err := strconv.ParseInt(s, 10, 64)
		unit := map[int]time.Duration{10: time.Second, 13: time.Millisecond, 16: time.Microsecond, 19: time.Nanosecond}[len(s)]
		if err != nil || unit == 0 {
			return time.Time{}, false
		}
		return time.Unix(n/int64(time.Second/unit), n%int64(time.Second/unit)*int64(unit)), true
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, true
	}
	t, err := http.ParseTime(s)
	return t, err == nil
}

// isRateLimited reports whether requests of a method are counted.
func (m *Middleware) isRateLimited(method string) bool {
	return slices.Contains(m.o.Limit.RateMethods, method) || slices.Contains(m.o.Limit.RateMethods, "*")
}

// checkRate counts a request, and returns a problem if it exceeds the rate. It never counts by the
// path as sent: a path has many spellings, and each would have a rate of its own.
func (m *Middleware) checkRate(r *http.Request) *Problem {
	by, what := m.o.Limit.RateBy, m.o.Limit.RateName
	if by == nil {
		by = m.o.Tenant
	}
	if what == "" {
		what = r.Pattern
	}
	who, err := by(r)
	if err != nil {
		return tenantProblem(err)
	}
	if m.o.Limit.RateBy == nil && m.account != nil {
		who = m.account(r)
	}
	if err := m.engine.Allow(r.Context(), who, what, m.o.Limit.Rate); err != nil {
		return problemOf(err, false)
	}
	return nil
}
