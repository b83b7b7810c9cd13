package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func asJUnit(t *testing.T, r *check.Report) string {
	t.Helper()
	var b bytes.Buffer
	assert.NoError(t, report.JUnit(&b, r), "JUnit")
	return b.String()
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	assertGolden(t, "junit.xml", asJUnit(t, sampleReport()))
}

func TestJUnitIsValid(t *testing.T) {
	t.Parallel()
	empty := sampleReport()
	empty.Results = nil
	for name, r := range map[string]*check.Report{"sample": sampleReport(), "hostile": hostileReport(), "nothing": empty} {
		assert.Equal(t, findViolations(asJUnit(t, r)), nil, "%s", name)
	}
	good := asJUnit(t, sampleReport())
	for what, change := range map[string][2]string{
		"a zone":                 {`26:53"`, `26:53Z"`},
		"a missing attribute":    {` hostname="localhost"`, ``},
		"an unknown attribute":   {`<testcase `, `<testcase page="x" `},
		"another order":          {`</properties>`, `</properties><system-err></system-err>`},
		"two results":            {`</failure>`, `</failure><skipped></skipped>`},
		"a number that is none":  {`tests="6"`, `tests="six"`},
		"a time that is none":    {`time="4.100"`, `time="4.1 s"`},
		"an element not of here": {`<system-out>`, `<notes></notes><system-out>`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		assert.NotEqual(t, bad, good, "%s: the change", what)
		assert.True(t, len(findViolations(bad)) > 0, "found: %s", what)
	}
}

// TestJUnitCounts: the numbers of the suite are those of its cases.
func TestJUnitCounts(t *testing.T) {
	t.Parallel()
	text := asJUnit(t, sampleReport())
	assert.Contains(t, text, `tests="6" failures="2" errors="0" skipped="2"`, "numbers")
	assert.Equal(t, strings.Count(text, "<testcase "), 6, "cases")
	assert.Equal(t, strings.Count(text, "<failure "), 2, "failures")
	assert.Equal(t, strings.Count(text, "<skipped "), 2, "skipped")
	assert.Contains(t, text, `classname="retrysafe.check.POST_http_localhost_8080_orders"`, "a class without dots of the URL")
}

// element is what the two schemas in wide use both allow: JUnit.xsd of Ant's form, as published by
// Windy Road, and junit-10.xsd of Jenkins.
type element struct {
	needs    map[string]string // attributes with the pattern of their values
	children []string          // in this order
	many     []string          // those of children that may come more or less often than once
	oneOf    bool              // at most one of the children
}

const (
	anyText = `(?s).*`
	number  = `\d+`
	dot     = `\d{1,}\.\d{3}`
)

var junitForm = map[string]element{
	"testsuites": {children: []string{"testsuite"}},
	"testsuite": {
		needs: map[string]string{
			"name": `.+`, "package": `.+`, "id": number, "hostname": `.+`, "timestamp": `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`,
			"tests": number, "failures": number, "errors": number, "skipped": number, "time": dot,
		},
		children: []string{"properties", "testcase", "system-out", "system-err"}, many: []string{"testcase"},
	},
	"properties": {children: []string{"property"}, many: []string{"property"}},
	"property":   {needs: map[string]string{"name": `.+`, "value": anyText}},
	"testcase": {
		needs:    map[string]string{"name": `[a-z0-9-]+`, "classname": `[A-Za-z0-9_.]+`, "time": dot},
		children: []string{"failure", "skipped"}, oneOf: true,
	},
	"failure":    {needs: map[string]string{"type": `minor|serious|critical`, "message": anyText}},
	"skipped":    {needs: map[string]string{"message": anyText}},
	"system-out": {}, "system-err": {},
}

// findViolations returns what in text is not as junitForm says.
func findViolations(text string) (found []string) {
	d := xml.NewDecoder(strings.NewReader(text))
	type open struct {
		name     string
		children []string
	}
	stack := []open{{name: "document"}}
	forms := map[string]element{"document": {children: []string{"testsuites"}}}
	for name, form := range junitForm {
		forms[name] = form
	}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return append(found, misplacedChildren("document", forms["document"], stack[0].children)...)
		}
		if err != nil {
			return append(found, err.Error())
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			name := tok.Name.Local
			stack[len(stack)-1].children = append(stack[len(stack)-1].children, name)
			stack = append(stack, open{name: name})
			found = append(found, wrongAttributes(name, forms[name], tok.Attr)...)
		case xml.EndElement:
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			found = append(found, misplacedChildren(last.name, forms[last.name], last.children)...)
		}
	}
}

func wrongAttributes(name string, form element, attrs []xml.Attr) (found []string) {
	seen := map[string]bool{}
	for _, a := range attrs {
		seen[a.Name.Local] = true
		pattern, ok := form.needs[a.Name.Local]
		if !ok || !regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(a.Value) {
			found = append(found, fmt.Sprintf("%s: %s=%q", name, a.Name.Local, a.Value))
		}
	}
	for want := range form.needs {
		if !seen[want] {
			found = append(found, name+" has no "+want)
		}
	}
	return found
}

func misplacedChildren(name string, form element, children []string) (found []string) {
	last := 0
	for _, c := range children {
		at := slices.Index(form.children, c)
		if at < last {
			found = append(found, name+": "+c+" is out of place")
		}
		last = max(last, at)
	}
	if form.oneOf {
		if len(children) > 1 {
			found = append(found, name+" has more than one child")
		}
		return found
	}
	for _, want := range form.children {
		n := 0
		for _, c := range children {
			if c == want {
				n++
			}
		}
		if n != 1 && !slices.Contains(form.many, want) {
			found = append(found, fmt.Sprintf("%s has %d %s", name, n, want))
		}
	}
	return found
}
