package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// texts is problems.txt: "== CODE" begins a code, and "-- PART" a part in English or, with " zh" at
// its end, in Chinese. "-- also 502 504" names the statuses that a code has besides its own.
//
//go:embed problems.txt
var texts string

// problem is what problems.txt says of a code.
type problem struct {
	code retrysafe.Code
	also []string
	// parts are the texts by their names, such as "happened" and "happened zh".
	parts map[string]string
}

// The parts of a code. Each is there in both languages; the title in English is in the table of
// codes, and operator may be missing.
var required = []string{"title zh", "happened", "happened zh", "done", "done zh", "client", "client zh"}

const operator, operatorZh = "operator", "operator zh"

// parseProblems parses problems.txt. Each code over HTTP has to be in it once, with all its parts.
func parseProblems(text string) (all []problem, err error) {
	missing := map[retrysafe.Code]bool{}
	for _, c := range retrysafe.Codes() {
		if c.HTTPStatus() != 0 {
			missing[c] = true
		}
	}
	for section := range strings.SplitSeq("\n"+text, "\n== ") {
		if strings.TrimSpace(section) == "" {
			continue
		}
		p, err := parseProblem(section)
		if err != nil {
			return nil, err
		}
		if !missing[p.code] {
			return nil, fmt.Errorf("%v is there twice, or is no code over HTTP", p.code)
		}
		delete(missing, p.code)
		all = append(all, p)
	}
	for c := range missing {
		return nil, fmt.Errorf("problems.txt has no entry for %v", c)
	}
	return all, nil
}

func parseProblem(section string) (p problem, err error) {
	name, rest, _ := strings.Cut(section, "\n")
	code, ok := retrysafe.ParseCode(name)
	if !ok || code.String() != name {
		return p, fmt.Errorf("%s is no code", name)
	}
	p = problem{code: code, parts: map[string]string{}}
	for part := range strings.SplitSeq("\n"+rest, "\n-- ") {
		title, text, _ := strings.Cut(part, "\n")
		if statuses, ok := strings.CutPrefix(title, "also "); ok {
			p.also = strings.Fields(statuses)
		} else if title != "" {
			p.parts[title] = strings.TrimSpace(text)
		}
	}
	return p, p.check()
}

// check returns an error if a part is missing, or is none.
func (p *problem) check() error {
	for _, part := range required {
		if p.parts[part] == "" {
			return fmt.Errorf("%v has no part %q", p.code, part)
		}
	}
	if (p.parts[operator] == "") != (p.parts[operatorZh] == "") {
		return fmt.Errorf("%v says in one language only what the operator can do", p.code)
	}
	for part := range p.parts {
		if !slices.Contains(required, part) && part != operator && part != operatorZh {
			return fmt.Errorf("%v has a part %q; use one of %q, %q or %q", p.code, part, required, operator, operatorZh)
		}
	}
	return nil
}
