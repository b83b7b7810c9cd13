package fingerprint

import (
	"net/url"
	"slices"
	"strings"
)

// LeaveOut returns a query, or the body of a form, without the parameters that Ignore names. All
// other bytes stay as they are, in their order. Paths, Only and the limits do not apply. It is for
// requests that are otherwise compared as they were sent.
//
// A parameter stays that programs may read in another way: one with a semicolon, which some take
// for "&", or with a name that is not well escaped.
func (c *Compiled) LeaveOut(params string) string {
	if params == "" || !c.ignoresNames {
		return params
	}
	return strings.Join(slices.DeleteFunc(strings.Split(params, "&"), c.leavesOut), "&")
}

// leavesOut reports whether Ignore has the name of a parameter.
func (c *Compiled) leavesOut(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	if pair == "" || strings.Contains(pair, ";") {
		return false
	}
	name, err := url.QueryUnescape(name)
	return err == nil && c.names[name]&actionIgnore != 0
}

// IgnoresNames reports whether Ignore has names, not paths alone, so that LeaveOut may change what
// it gets.
func (c *Compiled) IgnoresNames() bool { return c.ignoresNames }
