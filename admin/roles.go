package admin

import (
	"fmt"
	"strings"
)

// Roles is a set of what a caller may do.
type Roles uint8

// The roles.
const (
	// View shows records, without keys, tenants and answers.
	View Roles = 1 << iota
	// Reveal shows keys, tenants, answers and errors.
	Reveal
	// Resolve resolves records, and redrives or discards dead letters.
	Resolve
)

var roleNames = []struct {
	role Roles
	name string
}{{View, "view"}, {Reveal, "reveal"}, {Resolve, "resolve"}}

// ParseRoles parses names with commas: "view,resolve". Reveal and resolve include view.
func ParseRoles(s string) (r Roles, err error) {
	for name := range strings.SplitSeq(s, ",") {
		one, ok := roleOf(strings.TrimSpace(name))
		if !ok {
			return 0, fmt.Errorf("there is no role %q; use view, reveal and resolve, with commas", name)
		}
		r |= one | View
	}
	return r, nil
}

func roleOf(name string) (Roles, bool) {
	for _, n := range roleNames {
		if n.name == name {
			return n.role, true
		}
	}
	return 0, false
}

// Has reports whether r has all of want.
func (r Roles) Has(want Roles) bool { return r&want == want }

// Names returns the names of the roles.
func (r Roles) Names() []string {
	names := []string{}
	for _, n := range roleNames {
		if r.Has(n.role) {
			names = append(names, n.name)
		}
	}
	return names
}

// String returns the names with commas.
func (r Roles) String() string { return strings.Join(r.Names(), ",") }
