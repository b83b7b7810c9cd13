package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"io"

	"github.com/retrysafe/retrysafe/check"
)

var (
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// HTML writes r as one page for a browser. It has no external resource and needs no network. Its
// policy (CSP) allows only its own style and its own script, which copies lines to the clipboard.
// It returns the error of w.
func HTML(w io.Writer, r *check.Report) error {
	_, err := io.WriteString(w, pageOf(viewOf(r)))
	return err
}

// view is what the page shows.
type view struct {
	Policy   string
	Title    string
	Target   string
	Oracle   string
	Contract string
	Score    string
	Answer   string
	Overall  string
	Started  string
	Secrets  string
	Notes    []string
	Rows     []viewRow
	Groups   []viewGroup
}

type viewRow struct {
	*viewResult
	Link bool // whether the page has details
}

// viewGroup has the details of results of one verdict.
type viewGroup struct {
	Title   string
	Results []*viewResult
}

type viewResult struct {
	ID, Title, Verdict, Severity, Mark, Label string
	Summary, Help, HelpTitle, Page, Script    string
	Exchanges                                 []viewExchange
}

type viewExchange struct {
	Number           int
	Step, Curl, Took string
	Lines            []row
}

func viewOf(r *check.Report) *view {
	v := &view{
		Policy: "default-src 'none'; style-src '" + digest(pageCSS) + "'; script-src '" + digest(pageJS) +
			"'; base-uri 'none'; form-action 'none'",
		Title: "retrysafe check " + plain(r.Target), Target: plain(r.Target), Oracle: plain(effects(r)), Contract: plain(r.Contract),
		Score: Score(r), Answer: headline(r), Overall: overall(r).String(), Started: r.Started.UTC().Format("2006-01-02 15:04:05 MST"), Secrets: secretsNote(r),
	}
	for _, note := range remarks(r) {
		v.Notes = append(v.Notes, plain(note))
	}
	groups := map[check.Verdict]*viewGroup{
		check.Broken: {Title: "Broken"}, check.Noted: {Title: "Good to know"}, check.Undecided: {Title: "Undecided"},
	}
	for i := range r.Results {
		one := resultView(&r.Results[i])
		g := groups[r.Results[i].Verdict]
		v.Rows = append(v.Rows, viewRow{one, g != nil})
		if g != nil {
			g.Results = append(g.Results, one)
		}
	}
	for _, verdict := range []check.Verdict{check.Broken, check.Undecided, check.Noted} {
		if g := groups[verdict]; len(g.Results) > 0 {
			v.Groups = append(v.Groups, *g)
		}
	}
	return v
}

func resultView(r *check.Result) *viewResult {
	v := &viewResult{
		ID: r.ID, Title: plain(sentence(r.Title)), Verdict: r.Verdict.String(), Mark: marks[r.Verdict], Label: label(r),
		Summary: plain(sentence(r.Summary)), Help: plain(sentence(r.Help)), HelpTitle: "What to do", Page: r.Page,
	}
	switch r.Verdict {
	case check.Broken:
		v.Severity = r.Severity.String()
	case check.Undecided:
		v.HelpTitle = "What it needs"
	case check.Passed, check.Noted, check.Skipped:
	}
	answers := compared(r.Exchanges)
	for i := range r.Exchanges {
		e := &r.Exchanges[i]
		v.Exchanges = append(v.Exchanges, viewExchange{
			Number: i + 1, Step: plain(sentence(e.Step)), Curl: oneLine(e.Curl), Took: seconds(e.Took), Lines: answers[i],
		})
		v.Script += "# " + plain(e.Step) + "\n" + oneLine(e.Curl) + "\n"
	}
	return v
}

// digest is the source of a policy that allows exactly this style or script.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
