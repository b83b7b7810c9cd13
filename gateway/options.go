package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Options configure a [Gateway].
type Options struct {
	// Upstream is the service: http:// or https://, host, and optionally a path that is put before every request's. Required.
	Upstream string
	// Guard says what is guarded and how. Its Tenant is [httpidem.Credential] with its binding unless set, its Layer "gw".
	Guard httpidem.Options
	// Routes are what differs; the first that matches counts, and what none matches goes by Guard.
	Routes []Route
	// TimeoutAnswer is how long a guarded request waits for the whole answer (of one that is passed on as it comes: for each part);
	// default 60 s, or MaxRun if that is shorter. After it the outcome is unknown.
	TimeoutAnswer time.Duration
	// Logger gets what operators should see: no keys, no bodies, no queries. Default slog.Default().
	Logger *slog.Logger
}

// Validate says what is wrong with o for an engine with the policy base.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	if _, err := parseUpstream(o.Upstream); err != nil {
		errs = append(errs, err)
	}
	if o.TimeoutAnswer < 0 {
		errs = append(errs, fmt.Errorf("gateway: TimeoutAnswer is %v; use a positive time, or zero for 60s", o.TimeoutAnswer))
	}
	errs = append(errs, validateGuard(o.Guard, o.TimeoutAnswer, base))
	for _, r := range o.Routes {
		errs = append(errs, r.validate(base))
	}
	return errors.Join(errs...)
}

func validateGuard(o httpidem.Options, timeout time.Duration, base retrysafe.Policy) error {
	if o.Tenant == nil {
		o.Tenant = httpidem.Global // stands for the default, which needs the engine
	}
	var late error
	if run := o.Policy.Or(base).WithDefaults().MaxRun; timeout > run {
		late = fmt.Errorf("gateway: TimeoutAnswer (%v) is longer than a request may run (MaxRun %v); raise Lease or MaxRun", timeout, run)
	}
	return errors.Join(late, o.Validate(base))
}

func parseUpstream(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("gateway: no upstream is given; name the service, for example http://127.0.0.1:9000")
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("gateway: the upstream is no http:// or https:// address with a host; write it like http://127.0.0.1:9000")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("gateway: the upstream must be scheme, host and path alone: leave out user, query and fragment")
	}
	return u, nil
}
