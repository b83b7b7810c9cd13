package route

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Pattern is a method and a path, as in POST /orders/**.
type Pattern struct {
	// Method is in capitals, or * for all.
	Method string

	segments []string
	rest     bool // ends in **
}

// Parse parses a pattern. Its path is decoded; * is one segment, and ** at the end is any rest.
func Parse(text string) (*Pattern, error) {
	method, p, ok := strings.Cut(text, " ")
	if !ok || !strings.HasPrefix(p, "/") || strings.ContainsAny(p, " ?#%") {
		return nil, fmt.Errorf("%q is no method and path; write it like POST /orders/**, the path decoded", text)
	}
	if method != "*" && (method != strings.ToUpper(method) || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "") {
		return nil, fmt.Errorf("%q is no method; write it in capitals, or * for all", method)
	}
	m := &Pattern{Method: method, segments: splitPath(p)}
	if last := len(m.segments) - 1; last >= 0 && m.segments[last] == "**" {
		m.segments, m.rest = m.segments[:last], true
	}
	if slices.ContainsFunc(m.segments, func(s string) bool { return s != "*" && strings.Contains(s, "*") }) {
		return nil, errors.New("* stands for a whole segment, and ** only at the end of a path")
	}
	return m, nil
}

// splitPath cuts a path into segments. It ignores a slash at the end.
func splitPath(p string) []string {
	p = strings.Trim(path.Clean("/"+p), "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

func (m *Pattern) matches(segments []string) bool {
	return m.matchesBy(segments, func(a, b string) bool { return a == b })
}

func (m *Pattern) matchesBy(segments []string, same func(a, b string) bool) bool {
	if len(segments) < len(m.segments) || !m.rest && len(segments) != len(m.segments) {
		return false
	}
	for i, s := range m.segments {
		if s != "*" && !same(s, segments[i]) {
			return false
		}
	}
	return true
}

// isLiteral reports whether the pattern names one path.
func (m *Pattern) isLiteral() bool { return !m.rest && !slices.Contains(m.segments, "*") }

// Covers reports whether every path of the pattern o is one of m, whatever their methods are.
func (m *Pattern) Covers(o *Pattern) bool {
	if len(m.segments) > len(o.segments) || !m.rest && (o.rest || len(m.segments) != len(o.segments)) {
		return false
	}
	for i, s := range m.segments {
		if s != "*" && s != o.segments[i] {
			return false
		}
	}
	return true
}
