package route

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Entry is a route of a [Table].
type Entry[T any] struct {
	// Pattern has the paths of the route; nil only in the entry of all other requests.
	Pattern *Pattern
	// Methods are the methods of the route. They do not matter if EveryMethod is set.
	Methods     []string
	EveryMethod bool
	// Guards says that the route requires something of its requests: another spelling of its path
	// must not bypass it.
	Guards bool
	// ExactCase says that the service distinguishes /Votes from /votes, ExactExtension that
	// /votes.json is not /votes to it.
	ExactCase, ExactExtension bool
	// To is what serves the requests of the route.
	To T
}

// Table has all routes; the first that matches counts. It is safe for concurrent use once it is
// built.
type Table[T any] struct {
	entries []*Entry[T]
	rest    *Entry[T]
}

// NewTable returns a table whose requests all belong to rest until routes are added.
func NewTable[T any](rest *Entry[T]) *Table[T] { return &Table[T]{rest: rest} }

// Add adds a route after those that were added before.
func (t *Table[T]) Add(e *Entry[T]) { t.entries = append(t.entries, e) }

// Rest returns what serves requests that no route matches.
func (t *Table[T]) Rest() T { return t.rest.To }

// Find returns what serves r. ok is false if the service may read the path as that of another
// route.
func (t *Table[T]) Find(r *http.Request) (to T, ok bool) {
	e := t.findEntry(r)
	if e == nil {
		return to, false
	}
	return e.To, true
}

// findEntry returns the entry of r, or nil if the service may read the path as that of another one.
func (t *Table[T]) findEntry(r *http.Request) *Entry[T] {
	if len(t.entries) == 0 {
		return t.rest
	}
	if strings.Contains(r.URL.Path, `\`) {
		return nil // some services read it as a slash
	}
	segments := splitPath(r.URL.Path)
	decoded := t.matchEntry(r.Method, segments)
	if t.bypassesGuard(r.Method, r.URL.Path, segments, decoded) {
		return nil
	}
	if r.URL.RawPath == "" {
		return decoded
	}
	var apart []string // an encoded slash is part of its segment
	for _, s := range splitPath(r.URL.EscapedPath()) {
		if one, err := url.PathUnescape(s); err == nil {
			s = one
		}
		apart = append(apart, s)
	}
	if t.matchEntry(r.Method, apart) != decoded {
		return nil
	}
	return decoded
}

// matchEntry returns the first entry that matches, or the rest.
func (t *Table[T]) matchEntry(method string, segments []string) *Entry[T] {
	return t.firstEntry(method, func(e *Entry[T]) bool { return e.Pattern.matches(segments) })
}

// firstEntry returns the first entry for a method for which matches returns true, or the rest.
func (t *Table[T]) firstEntry(method string, matches func(*Entry[T]) bool) *Entry[T] {
	for _, e := range t.entries {
		if e.servesMethod(method) && matches(e) {
			return e
		}
	}
	return t.rest
}

// servesMethod reports whether the route is for a method.
func (e *Entry[T]) servesMethod(method string) bool {
	return e.EveryMethod || slices.Contains(e.Methods, method)
}
