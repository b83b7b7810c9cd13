package report

import (
	_ "embed"
	"encoding/json"
	"io"

	"github.com/retrysafe/retrysafe/check"
)

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 2020-12) of what [JSON] writes.
func Schema() []byte { return []byte(schema) }

// jsonVersion is the version of the form of [JSON]. A member that is new does not change it; one
// that is removed, or that means something else, does.
const jsonVersion = 1

type document struct {
	Version int    `json:"version"`
	Verdict string `json:"verdict"`
	Counts  counts `json:"counts"`
	content
}

// content is check.Report without its methods, so that its fields are members of the document.
type content check.Report

// counts are the numbers of results by verdict, and of the broken ones by severity.
type counts struct {
	Passed    int `json:"passed"`
	Noted     int `json:"noted"`
	Broken    int `json:"broken"`
	Undecided int `json:"undecided"`
	Skipped   int `json:"skipped"`
	Critical  int `json:"critical"`
	Serious   int `json:"serious"`
	Minor     int `json:"minor"`
}

// JSON writes r as one JSON object, for programs. [Schema] describes it. It returns the error of w.
func JSON(w io.Writer, r *check.Report) error {
	own := content(*r)
	if own.Results == nil {
		own.Results = []check.Result{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document{
		Version: jsonVersion,
		Verdict: overallVerdict(r).String(),
		Counts: counts{
			Passed: r.Count(check.Passed), Noted: r.Count(check.Noted), Broken: r.Count(check.Broken),
			Undecided: r.Count(check.Undecided), Skipped: r.Count(check.Skipped),
			Critical: countSeverity(r, check.Critical), Serious: countSeverity(r, check.Serious), Minor: countSeverity(r, check.Minor),
		},
		content: own,
	})
}

// overallVerdict is the verdict on the API: broken if any check is, else undecided if any is, else
// passed. An examination without any result, or one that was interrupted, decided nothing.
func overallVerdict(r *check.Report) check.Verdict {
	switch {
	case r.Count(check.Broken) > 0:
		return check.Broken
	case r.Interrupted, r.Count(check.Undecided) > 0, r.Count(check.Passed)+r.Count(check.Noted) == 0:
		return check.Undecided
	}
	return check.Passed
}
