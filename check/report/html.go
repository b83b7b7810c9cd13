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
	_, err := io.WriteString(w, htmlPage(htmlViewOf(r)))
	return err
}

// htmlView is what the page shows.
type htmlView struct {
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
	Lines            []answerLine
}

func htmlViewOf(r *check.Report) *htmlView {
	v := &htmlView{
		Policy: "default-src 'none'; style-src '" + policyHash(pageCSS) + "'; script-src '" + policyHash(pageJS) +
			"'; base-uri 'none'; form-action 'none'",
		Title: "retrysafe check " + plainText(r.Target), Target: plainText(r.Target), Oracle: plainText(effectsText(r)), Contract: plainText(r.Contract),
		Score: Score(r), Answer: headlineOf(r), Overall: overallVerdict(r).String(), Started: r.Started.UTC().Format("2006-01-02 15:04:05 MST"), Secrets: secretsNote(r),
	}
	for _, note := range reportRemarks(r) {
		v.Notes = append(v.Notes, plainText(note))
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
		ID: r.ID, Title: plainText(asSentence(r.Title)), Verdict: r.Verdict.String(), Mark: verdictMarks[r.Verdict], Label: verdictLabel(r),
		Summary: plainText(asSentence(r.Summary)), Help: plainText(asSentence(r.Help)), HelpTitle: "What to do", Page: r.Page,
	}
	switch r.Verdict {
	case check.Broken:
		v.Severity = r.Severity.String()
	case check.Undecided:
		v.HelpTitle = "What it needs"
	case check.Passed, check.Noted, check.Skipped:
	}
	answers := compareAnswers(r.Exchanges)
	for i := range r.Exchanges {
		e := &r.Exchanges[i]
		v.Exchanges = append(v.Exchanges, viewExchange{
			Number: i + 1, Step: plainText(asSentence(e.Step)), Curl: oneLine(e.Curl), Took: durationText(e.Took), Lines: answers[i],
		})
		v.Script += "# " + plainText(e.Step) + "\n" + oneLine(e.Curl) + "\n"
	}
	return v
}

// policyHash is the source of a policy that allows exactly this style or script.
func policyHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
