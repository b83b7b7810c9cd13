// Package inside keeps the addresses of upstreams out of answers. A service that does not know the
// gateway's name makes absolute URLs of its own. A client that follows one would act at the service
// itself, past the guard, or reach nothing.
package inside

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Addresses are those of the upstreams. It is safe for concurrent use.
type Addresses struct{ all []address }

// address is one upstream. Host and port are as in [split]; path has no slash at its end.
type address struct {
	host, port, path string
	bare             bool // the port was left out
}

// Of returns the addresses of upstreams. Their URLs have a scheme and a host.
func Of(upstreams []*url.URL) *Addresses {
	a := new(Addresses)
	for _, u := range upstreams {
		host, port := split(u.Host)
		x := address{host: host, port: port, path: strings.TrimRight(u.EscapedPath(), "/"), bare: port == ""}
		if x.bare {
			x.port = portOf(strings.ToLower(u.Scheme))
		}
		a.all = append(a.all, x)
	}
	return a
}

// portOf returns the usual port of a scheme.
func portOf(scheme string) string { return map[string]string{"http": "80", "https": "443"}[scheme] }

// split returns host and port of an authority without user. All names of this machine are one host.
func split(authority string) (host, port string) {
	host = strings.ToLower(authority)
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	return nameOf(host), port
}

// nameOf returns a host in a form that can be compared.
func nameOf(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		if addr = addr.Unmap(); addr.IsLoopback() || addr.IsUnspecified() {
			return "localhost"
		}
		return addr.String()
	}
	return host
}

// find returns the upstream with this authority, or nil. The scheme is empty if it is that of the
// client's request. A service may take it from X-Forwarded-Proto, so it need not be the upstream's.
func (a *Addresses) find(scheme, authority string) *address {
	host, port := split(authority)
	for i := range a.all {
		x := &a.all[i]
		if x.host != host {
			continue
		}
		if port == x.port || port == "" && (x.bare || portOf(scheme) == x.port) {
			return x
		}
	}
	return nil
}

// Hide replaces URLs of upstreams in the fields of an answer that clients follow: Location,
// Content-Location, Refresh and the targets and anchors of Link become references to the path. It
// removes the Domain of a cookie if it is an upstream's host, so that a browser accepts the cookie
// for the gateway's, unless it is a domain of client, the Host of the request. It removes Alt-Svc
// if that names an upstream.
func (a *Addresses) Hide(h http.Header, client string) {
	for _, name := range []string{"Location", "Content-Location"} {
		edit(h[name], a.reference)
	}
	edit(h["Refresh"], a.refresh)
	edit(h["Link"], a.link)
	if cookies := h["Set-Cookie"]; len(cookies) > 0 {
		host, _, _ := strings.Cut(strings.ToLower(client), ":")
		edit(cookies, func(cookie string) string { return a.cookie(cookie, host) })
	}
	if slices.ContainsFunc(h["Alt-Svc"], a.alternative) {
		delete(h, "Alt-Svc")
	}
}

// edit replaces each value of a field.
func edit(values []string, by func(string) string) {
	for i, v := range values {
		values[i] = by(v)
	}
}

// reference returns a URL of an upstream as a reference to its path, and any other unchanged. It
// finds the authority where browsers do, which take \ for /, leave tabs out, and skip controls.
func (a *Addresses) reference(target string) string {
	u := strings.TrimFunc(strings.ReplaceAll(target, "\t", ""), func(r rune) bool { return r <= ' ' })
	scheme, rest := "", u
	if before, after, ok := strings.Cut(u, ":"); ok && portOf(strings.ToLower(before)) != "" {
		scheme, rest = strings.ToLower(before), after
	}
	authority := strings.TrimLeft(rest, `/\`)
	if len(rest)-len(authority) < 2 {
		return target
	}
	path := ""
	if i := strings.IndexAny(authority, `/\?#`); i >= 0 {
		authority, path = authority[:i], authority[i:]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	x := a.find(scheme, authority)
	if x == nil {
		return target
	}
	return x.relative(path)
}

// relative returns a reference to a path of the upstream, as the client has to ask for it. It never
// begins with two slashes, which would name another host.
func (x *address) relative(path string) string {
	if below, ok := strings.CutPrefix(path, x.path); ok && (below == "" || strings.IndexByte(`/\?#`, below[0]) >= 0) {
		path = below
	}
	if path == "" || path[0] != '/' && path[0] != '\\' {
		return "/" + path
	}
	if path = "/" + path[1:]; len(path) > 1 && (path[1] == '/' || path[1] == '\\') {
		return "/." + path // RFC 3986, section 4.2
	}
	return path
}

// refresh edits a Refresh field: a number of seconds, and optionally a URL.
func (a *Addresses) refresh(v string) string {
	i := strings.IndexAny(v, ";,")
	if i < 0 {
		return v
	}
	begin := i + 1 + spaces(v[i+1:])
	if rest := v[begin:]; len(rest) > 3 && strings.EqualFold(rest[:3], "url") {
		after := 3 + spaces(rest[3:])
		if after < len(rest) && rest[after] == '=' {
			begin += after + 1 + spaces(rest[after+1:])
		}
	}
	end := len(v)
	if begin < end && (v[begin] == '"' || v[begin] == '\'') {
		quote := v[begin]
		begin++
		if j := strings.IndexByte(v[begin:], quote); j >= 0 {
			end = begin + j
		}
	}
	return v[:begin] + a.reference(v[begin:end]) + v[end:]
}

// spaces counts the white space that s begins with.
func spaces(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// link edits a Link field (RFC 8288): the target of each link, in <>, and its anchor.
func (a *Addresses) link(v string) string {
	var b strings.Builder
	for i := 0; i < len(v); {
		mark := byte(0)
		switch v[i] {
		case '<':
			mark = '>'
		case '"':
			mark = '"'
		}
		end := -1
		if mark != 0 {
			end = closing(v[i+1:], mark)
		}
		if end < 0 {
			b.WriteByte(v[i])
			i++
			continue
		}
		text := v[i+1 : i+1+end]
		if mark == '>' || ofAnchor(v[:i]) {
			text = a.reference(text)
		}
		b.WriteByte(v[i])
		b.WriteString(text)
		b.WriteByte(mark)
		i += end + 2
	}
	return b.String()
}

// closing returns the index of the mark that ends s, or -1. In a quoted string a backslash escapes.
func closing(s string, mark byte) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == mark:
			return i
		case mark == '"' && s[i] == '\\':
			i++
		}
	}
	return -1
}

// ofAnchor reports whether the text before a quoted string ends with anchor=.
func ofAnchor(before string) bool {
	name, ok := strings.CutSuffix(strings.TrimRight(before, " \t"), "=")
	name = strings.ToLower(strings.TrimRight(name, " \t"))
	return ok && strings.HasSuffix(name, "anchor")
}

// cookie edits a Set-Cookie field; host is the one that the client has called.
func (a *Addresses) cookie(v, host string) string {
	parts := strings.Split(v, ";")
	kept := slices.DeleteFunc(parts[1:], func(part string) bool {
		name, domain, _ := strings.Cut(part, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "Domain") {
			return false
		}
		domain = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(domain), "."))
		if domain == host || strings.HasSuffix(host, "."+domain) {
			return false
		}
		return slices.ContainsFunc(a.all, func(x address) bool { return x.host == nameOf(domain) })
	})
	return strings.Join(parts[:1+len(kept)], ";")
}

// alternative reports whether an Alt-Svc field names an upstream.
func (a *Addresses) alternative(v string) bool {
	for i, quoted := range strings.Split(v, `"`) {
		if i%2 == 1 && !strings.HasPrefix(quoted, ":") && a.find("", quoted) != nil {
			return true
		}
	}
	return false
}
