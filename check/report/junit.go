package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/check"
)

type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Package    string          `xml:"package,attr"`
	ID         int             `xml:"id,attr"`
	Hostname   string          `xml:"hostname,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        junitText       `xml:"system-out"`
	Err        junitText       `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	Classname string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitMessage `xml:"failure"`
	Skipped   *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Text    string `xml:",innerxml"`
}

type junitText struct {
	Text string `xml:",innerxml"`
}

// JUnit writes r in the XML form of JUnit, which build servers show as tests: one suite with a test
// case for each check. A broken check is a failure with its reproduction. An undecided one is
// skipped, with what it needs. Remarks are in the output of the suite. It returns the error of w.
//
// The file is valid for both forms in wide use, that of Ant and that of Jenkins (junit-10).
func JUnit(w io.Writer, r *check.Report) error {
	s := junitSuite{
		Name: "retrysafe check " + plainText(r.Target), Package: "retrysafe.check", Hostname: "localhost",
		Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
		Tests:     len(r.Results), Failures: r.Count(check.Broken),
		Skipped: r.Count(check.Undecided) + r.Count(check.Skipped), Time: decimalSeconds(r.Took),
		Properties: []junitProperty{
			{"target", plainText(r.Target)}, {"oracle", plainText(r.Oracle)}, {"requests", fmt.Sprint(r.Requests)},
		},
	}
	if r.Contract != "" {
		s.Properties = append(s.Properties, junitProperty{"contract", plainText(r.Contract)})
	}
	var notes strings.Builder
	for _, note := range reportRemarks(r) {
		notes.WriteString(plainText(note) + "\n")
	}
	for i := range r.Results {
		one := &r.Results[i]
		s.Cases = append(s.Cases, junitCaseOf(r, one))
		if one.Verdict == check.Noted {
			fmt.Fprintf(&notes, "%s: %s\n", one.ID, resultRemark(one))
		}
	}
	s.Out.Text = escapeXML(notes.String() + Score(r) + "\n")
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{Suite: s}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitCaseOf(r *check.Report, one *check.Result) junitCase {
	c := junitCase{Name: one.ID, Classname: "retrysafe.check." + identifier(r.Target), Time: decimalSeconds(one.Took)}
	switch one.Verdict {
	case check.Broken:
		c.Failure = &junitMessage{Type: one.Severity.String(), Message: plainText(asSentence(one.Summary)), Text: escapeXML(failureText(one))}
	case check.Undecided:
		c.Skipped = &junitMessage{Message: resultRemark(one)}
	case check.Skipped:
		c.Skipped = &junitMessage{Message: "The options left this check out."}
	case check.Passed, check.Noted:
	}
	return c
}

// failureText is what a person needs who sees only the failure.
func failureText(r *check.Result) string {
	var b strings.Builder
	for _, part := range []string{asSentence(r.Title), asSentence(r.Help), r.Page} {
		if part != "" {
			b.WriteString(plainText(part) + "\n")
		}
	}
	for i := range r.Exchanges {
		e := &r.Exchanges[i]
		fmt.Fprintf(&b, "\n# %s: %s\n%s\n", plainText(e.Step), plainText(answerText(e)), oneLine(e.Curl))
	}
	return b.String()
}

// readable are the characters that need no reference in the text of an element. A person may read
// the file as it is.
var readableXML = strings.NewReplacer("&#xA;", "\n", "&#34;", `"`, "&#39;", "'")

func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder returns no error
	return readableXML.Replace(b.String())
}

// decimalSeconds returns seconds as a decimal number.
func decimalSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

// identifier returns s with one underscore for each run of other characters: build servers split
// the name of a class at its dots.
func identifier(s string) string { return strings.Trim(notWord.ReplaceAllString(s, "_"), "_") }
