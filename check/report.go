package check

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Report is what an examination found.
type Report struct {
	// Target is the method and the URL that were examined, without the query.
	Target string `json:"target"`
	// Oracle says how effects were counted; "none" without an oracle.
	Oracle string `json:"oracle"`
	// Contract is the profile that was checked to the letter, or empty.
	Contract string `json:"contract,omitempty"`
	// Started is when the examination began.
	Started time.Time `json:"started"`
	// Took is how long it lasted.
	Took time.Duration `json:"took_ns"`
	// Requests is the number of requests that were sent.
	Requests int `json:"requests"`
	// Interrupted reports that the examination ended early: checks are missing in Results.
	Interrupted bool `json:"interrupted,omitempty"`
	// Notes has sentences about the whole examination.
	Notes []string `json:"notes,omitempty"`
	// Results has one result for each check, in the order of Checks.
	Results []Result `json:"results"`
}

// Count returns how many results have the verdict v.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Verdict == v {
			n++
		}
	}
	return n
}

// Undecided returns an error if no check could be decided. It says why, and what to give the
// checker. It returns nil if one check was passed, noted or broken.
func (r *Report) Undecided() error {
	if r.Count(Passed)+r.Count(Noted)+r.Count(Broken) > 0 {
		return nil
	}
	if r.Count(Undecided) == 0 {
		return errors.New("check: no check could be decided: all were left out by the options")
	}
	var needs []string
	why := ""
	for i := range r.Results {
		one := &r.Results[i]
		if one.Help != "" && !slices.Contains(needs, one.Help) {
			needs = append(needs, one.Help)
		}
		if one.Verdict == Undecided && why == "" {
			why = one.ID + ": " + one.Summary
		}
	}
	text := "check: no check could be decided (" + why + ")"
	if len(needs) > 0 {
		text += ". " + strings.Join(needs, " ")
	}
	return errors.New(text)
}

// Result is what one check found.
type Result struct {
	// ID, Title and Page are those of the check.
	ID    string `json:"id"`
	Title string `json:"title"`
	Page  string `json:"page"`
	// Severity is the harm of what was found; of the check itself unless it is broken.
	Severity Severity `json:"severity"`
	// Verdict is what was found.
	Verdict Verdict `json:"verdict"`
	// Summary says what was seen, in one sentence with the numbers.
	Summary string `json:"summary"`
	// Help says what to do: how to mend it, or what an undecided check needs. It may be empty.
	Help string `json:"help,omitempty"`
	// Exchanges are the requests that show what was found, in the order of sending, with their
	// answers. At most 8 are kept.
	Exchanges []Exchange `json:"exchanges,omitempty"`
	// Took is how long the check lasted.
	Took time.Duration `json:"took_ns"`
}

// Exchange is one request with its answer. Values of fields that carry credentials are replaced
// by "(secret)".
type Exchange struct {
	// Step says what the request is for: "the first request", "the repeat".
	Step string `json:"step"`
	// Curl is the request as a line for a shell.
	Curl string `json:"curl"`
	// Status is the answer's status; 0 if there was no answer.
	Status int `json:"status,omitempty"`
	// Header has the answer's fields.
	Header http.Header `json:"header,omitempty"`
	// Body is the answer's body, cut after 2 kB.
	Body string `json:"body,omitempty"`
	// Error says why there was no answer.
	Error string `json:"error,omitempty"`
	// Took is the time from sending to the end of the answer.
	Took time.Duration `json:"took_ns"`
}

// Reproduction returns the requests of r as a script for a shell, one curl line after another,
// each after a comment with its step. It is empty if the check sent nothing that shows its result.
func (r *Result) Reproduction() string {
	var b strings.Builder
	for i := range r.Exchanges {
		b.WriteString("# " + r.Exchanges[i].Step + "\n" + r.Exchanges[i].Curl + "\n")
	}
	return b.String()
}
