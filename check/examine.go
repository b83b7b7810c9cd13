package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Examine sends requests to an API in all the ways of [Checks] and reports what it found.
//
// It returns an error if there is nothing to report: the target cannot be used, cannot be reached,
// or does not take effect by one plain request. If ctx ends, the report has what was found until
// then, and the error wraps that of ctx.
//
// The API must be quiet: what others do there is counted too. The checks run one after another.
func Examine(ctx context.Context, target Target, options *Options) (*Report, error) {
	if target.KeyHeader == "" {
		target.KeyHeader = "Idempotency-Key"
	}
	o := options.withDefaults()
	if err := validateTarget(&target, &o); err != nil {
		return nil, err
	}
	target.Oracle = o.adaptOracle(target.Oracle)
	base := session{target: &target, options: &o, sender: newSender(&o), observed: &observations{}}
	defer base.sender.closeIdle()
	report := newReport(&target)
	if err := base.checkBaseline(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, &interruption{cause: ctx.Err()}
		}
		return nil, err
	}
	for i, c := range checks {
		event := Event{Index: i + 1, Total: len(checks), Check: c}
		o.reportEvent(event)
		result := base.examineCheck(ctx, c)
		if ctx.Err() != nil {
			break
		}
		report.Results = append(report.Results, result)
		event.Result = &report.Results[len(report.Results)-1]
		o.reportEvent(event)
	}
	report.Requests, report.Took = int(base.sender.sent.Load()), time.Since(report.Started)
	report.Notes = base.observed.reportNotes()
	if len(report.Results) < len(checks) {
		report.Interrupted = true
		return report, &interruption{len(report.Results), ctx.Err()}
	}
	return report, nil
}

// interruption is the error of an examination whose context has ended.
type interruption struct {
	examined int
	cause    error
}

func (e *interruption) Error() string {
	return fmt.Sprintf("check: interrupted; %d of %d checks were done", e.examined, len(checks))
}

func (e *interruption) Unwrap() error { return e.cause }

func (o *Options) reportEvent(e Event) {
	if o.OnEvent != nil {
		o.OnEvent(e)
	}
}

func newReport(t *Target) *Report {
	r := &Report{Started: time.Now(), Oracle: "none", Contract: t.Contract}
	u, _ := url.Parse(t.Request.URL) // was parsed before
	u.RawQuery, u.User, u.Fragment = "", nil, ""
	r.Target = t.Request.methodOrPost() + " " + u.String()
	if t.Oracle != nil {
		r.Oracle = t.Oracle.String()
	}
	return r
}

// examineCheck does one check.
func (s session) examineCheck(ctx context.Context, c *Check) (result Result) {
	start := time.Now()
	f := finding{verdict: Skipped, summary: "left out"}
	if s.options.Chosen(c.ID) {
		f = s.decideCheck(ctx, c)
	}
	result = Result{
		ID: c.ID, Title: c.Title, Page: c.Page(), Severity: c.Severity, Verdict: f.verdict,
		Summary: f.summary, Help: f.help, Exchanges: s.shown, Took: time.Since(start),
	}
	if f.verdict == Broken {
		result.Severity, result.Help = f.severity, c.Fix
	}
	return result
}

// decideCheck runs a check. What stops it in its middle makes it undecided.
func (s *session) decideCheck(ctx context.Context, c *Check) (f finding) {
	defer func() {
		if v := recover(); v != nil {
			stopped, ok := v.(stopPanic)
			if !ok {
				panic(v)
			}
			f = undecidedFinding("", "the check could not go on: %s", stopped.err)
		}
	}()
	return c.run(ctx, s)
}

// Chosen reports whether the check with this ID is to be done.
func (o *Options) Chosen(id string) bool {
	return (len(o.Only) == 0 || slices.Contains(o.Only, id)) && !slices.Contains(o.Skip, id)
}

// Validate returns the error with which [Examine] would refuse target or options before it sends
// anything, or nil.
func Validate(target Target, options *Options) error {
	o := options.withDefaults()
	return validateTarget(&target, &o)
}

// validateTarget reports what of the target and the options cannot be used.
func validateTarget(t *Target, o *Options) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("check: "+format, args...)) }
	requests := []*Request{&t.Request}
	if t.OtherRoute != nil {
		requests = append(requests, t.OtherRoute)
	}
	for _, r := range requests {
		u, err := url.Parse(r.URL)
		switch {
		case err != nil:
			errs = append(errs, err)
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			wrong("the URL %q is not absolute; write it with its host, as http://localhost:8080/orders", r.URL)
		}
		if err == nil && ownAddress(t.Oracle, u) {
			wrong("the checker itself listens on %s; give the URL of the API, or of the guard before it", u.Host)
		}
		if m := r.methodOrPost(); m == http.MethodGet || m == http.MethodHead || m == http.MethodOptions {
			wrong("a request by %s changes nothing; give one that takes effect, as POST", m)
		}
	}
	for _, id := range slices.Concat(o.Only, o.Skip) {
		if !slices.ContainsFunc(checks, func(c *Check) bool { return c.ID == id }) {
			wrong("there is no check %q; docs/checks.md lists them all", id)
		}
	}
	if t.Contract != "" && profiles[t.Contract] == nil {
		wrong("there is no contract %q; use ietf, stripe or acp", t.Contract)
	}
	return errors.Join(errs...)
}

// ownAddress reports whether u is the address at which the oracle listens.
func ownAddress(oracle Oracle, u *url.URL) bool {
	listening, ok := oracle.(interface{ URL() string })
	if !ok {
		return false
	}
	own, err := url.Parse(listening.URL())
	return err == nil && samePlace(own, u)
}

// checkBaseline sends two operations as a plain client does, to see that they take effect and
// whether an answer shows its operation.
func (s *session) checkBaseline(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stopped, ok := v.(stopPanic)
			if !ok {
				panic(v)
			}
			err = fmt.Errorf("check: %w", stopped.err)
		}
	}()
	effects := s.newEffectCounter(ctx)
	var replies [2]reply
	for i := range replies {
		r := s.sendUnshown(ctx, s.newOperation())
		if errors.As(r.err, new(*HostError)) {
			return fmt.Errorf("check: %w", r.err) // nothing was sent
		}
		if r.err != nil {
			return fmt.Errorf("check: the API did not answer: %w", r.err)
		}
		if to := r.redirectTarget(s.target.Request.URL); to != "" {
			return fmt.Errorf("check: the request is answered %s: the API redirects to %s; name that URL", &r, to)
		}
		if !r.isSuccess() {
			return fmt.Errorf("check: the request is answered %s, and the checks need one that succeeds: %s", &r, cutBody(r.body))
		}
		replies[i] = r
	}
	if n := effects.awaitCount(ctx, 2); n != 2 {
		return fmt.Errorf("check: two requests with two keys were counted as %d effects (%s); "+
			"the count has to grow by one with each request, and nothing else may act on the API", n, s.target.Oracle)
	}
	s.distinct = !replies[0].equals(&replies[1])
	return nil
}
