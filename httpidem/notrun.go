package httpidem

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/notrun"
)

// NotRun reports whether an answer with this status says that the request was not processed, so
// that its key is released under every policy: 307, 308, 401, 403, 407, 408, 421, 425, 426, 428,
// 429 and 431. Of 307 and 308 that holds only if Location has the path of the request, apart from a
// slash at its end and from upper case. See docs/outcomes.md.
func NotRun(status int) bool {
	releases, _ := notrun.Status(status)
	return releases
}

// mayRelease reports whether AnswerOptions.NotRun may have a status under Refuse. Success is an
// outcome. 500, 502 and 504 may come from a service, or from a proxy before it, after the request
// has taken effect.
func mayRelease(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return false
	}
	return status >= 300 && status <= 599
}

// validateNotRun reports what is wrong with NotRun under the policy p.
func (o *Options) validateNotRun(p *retrysafe.Policy, wrong func(format string, args ...any)) {
	for _, status := range o.Answer.NotRun {
		switch {
		case status < 300 || status > 599:
			wrong("NotRun has %d; use statuses of 300 to 599 that the service answers before it acts", status)
		case p.OnDoubt != retrysafe.Reexecute && !mayRelease(status):
			wrong("NotRun has %d, which also comes after a request has taken effect; leave it out, or set Policy.OnDoubt to Reexecute", status)
		}
	}
}

// notRun reports whether the status of an answer releases the key. What a status of 500 and above
// means is up to After5xx.
func (m *Middleware) notRun(c *capture) bool {
	if slices.Contains(m.o.Answer.NotRun, c.status) {
		return true
	}
	switch releases, ifSamePath := notrun.Status(c.status); {
	case ifSamePath:
		return samePath(c.r, c.header.Get("Location"))
	case releases:
		return true
	}
	return m.policy.OnDoubt == retrysafe.Reexecute && c.status < 500 && notrun.StatusUnderReexecute(c.status)
}

// samePath reports whether a redirect leads to the path of the request, apart from what frameworks
// add by themselves: another host or scheme, a slash at the end, lower case. A handler that has
// acted sends its client to another page.
func samePath(r *http.Request, location string) bool {
	target, err := url.Parse(location)
	if err != nil || location == "" {
		return false
	}
	asked, err := url.Parse(sentPath(r))
	if err != nil {
		return false
	}
	plain := func(u *url.URL) string { return strings.ToLower(strings.TrimRight(u.EscapedPath(), "/")) }
	return plain(asked.ResolveReference(target)) == plain(asked)
}

// classify returns what the answer means for the key.
func (m *Middleware) classify(c *capture) retrysafe.Outcome {
	refuse := m.policy.OnDoubt == retrysafe.Refuse
	if c.hijacked {
		return retrysafe.Done
	}
	if c.outcome == "not-executed" {
		return retrysafe.NotDone
	}
	if m.o.Answer.Classify != nil {
		switch o := m.o.Answer.Classify(c.status, c.header); {
		case o == retrysafe.NotDone && refuse && !m.notRun(c):
			return retrysafe.Doubtful
		case o != 0:
			return o
		}
	}
	if c.outcome == "executed" {
		return retrysafe.Done
	}
	if m.notRun(c) {
		return retrysafe.NotDone
	}
	if c.status >= 500 && (m.o.Answer.After5xx == After5xxRelease || m.o.Answer.After5xx == After5xxAuto && !refuse) {
		return retrysafe.NotDone
	}
	if c.over == nil && m.outcome.saysNotRun(c.status, c.w.Header(), c.body.b) {
		return retrysafe.NotDone
	}
	return retrysafe.Done
}
