package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// fixedAnswer is [httpidem.StaticAnswer] in the file.
type fixedAnswer struct {
	Status      int    `yaml:"status"`
	Body        string `yaml:"body"`
	ContentType string `yaml:"content_type"`
}

// waitingAnswer is a fixedAnswer that may come later.
type waitingAnswer struct {
	Answer fixedAnswer `yaml:",inline"`
	Wait   duration    `yaml:"wait"`
}

// staticAnswer returns the answer that who gets.
func (a *fixedAnswer) staticAnswer(n ast.Node, who string) (httpidem.StaticAnswer, error) {
	if a.Status != 0 && (a.Status < 200 || a.Status > 299) {
		return httpidem.StaticAnswer{}, errorAtNode(n, "status %d: %s gets a success; use 200 to 299", a.Status, who)
	}
	s := httpidem.StaticAnswer{Status: a.Status, ContentType: a.ContentType, Body: []byte(a.Body)}
	if s.ContentType == "" && a.Body != "" {
		s.ContentType = "text/plain; charset=utf-8"
	}
	return s, nil
}

// inProgressAnswer is how a duplicate is answered while the first request runs.
type inProgressAnswer struct {
	wait   time.Duration
	answer *httpidem.StaticAnswer // nil: 409
}

func (v *inProgressAnswer) UnmarshalYAML(n ast.Node) error {
	if _, ok := n.(*ast.MappingNode); ok {
		var a waitingAnswer
		if err := yaml.NodeToValue(n, &a, yaml.Strict()); err != nil {
			return err
		}
		if v.wait = -1; a.Wait.d > 0 {
			v.wait = a.Wait.d
		}
		answer, err := a.Answer.staticAnswer(n, "a duplicate")
		v.answer = &answer
		return err
	}
	text, err := scalarText(n, `reject, wait and a time, or {status: 202}`)
	if err != nil {
		return err
	}
	if v.wait, err = ParsePatience(text); err != nil {
		return errorAtNode(n, "%s", err)
	}
	return nil
}

// ParsePatience parses how a duplicate is answered while the first request runs: reject (a negative
// wait), or wait and a time.
func ParsePatience(text string) (wait time.Duration, err error) {
	if text == "reject" {
		return -1, nil
	}
	if rest, ok := strings.CutPrefix(text, "wait "); ok {
		if d, err := parseTime(strings.TrimSpace(rest)); err == nil && d > 0 {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q: write reject, or wait and a time, for example \"wait 5s\"", text)
}

// duplicateAnswer is how a duplicate of a finished request is answered.
type duplicateAnswer struct {
	v      retrysafe.Duplicate
	answer httpidem.StaticAnswer
}

func (v *duplicateAnswer) UnmarshalYAML(n ast.Node) (err error) {
	if _, ok := n.(*ast.MappingNode); !ok {
		v.v, err = parseChoice(n, "replay reject", retrysafe.Replay, retrysafe.Reject)
		return err
	}
	var a fixedAnswer
	if err := yaml.NodeToValue(n, &a, yaml.Strict()); err != nil {
		return err
	}
	v.v = retrysafe.Succeed
	v.answer, err = a.staticAnswer(n, "a duplicate of finished work")
	return err
}
