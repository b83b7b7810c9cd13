// Package inside keeps the addresses of upstreams out of answers. A service that does not know the
// gateway's name makes absolute URLs of its own. A client that follows one would act at the service
// itself, past the guard, or reach nothing.
package inside

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Addresses are those of the upstreams. It is safe for concurrent use.
type Addresses struct{ all []address }

// address is one upstream. Host and port are as in [split]; path has no slash at its end.
type address struct {
	host, port, path string
	portOmitted      bool // the port was left out
}

// Of returns the addresses of upstreams. Their URLs have a scheme and a host.
func Of(upstreams []*url.URL) *Addresses {
	a := new(Addresses)
	for _, u := range upstreams {
		host, port := splitAuthority(u.Host)
		x := address{host: host, port: port, path: strings.TrimRight(u.EscapedPath(), "/"), portOmitted: port == ""}
		if x.portOmitted {
			x.port = portOf(strings.ToLower(u.Scheme))
		}
		a.all = append(a.all, x)
	}
	return a
}

// portOf returns the usual port of a scheme.
func portOf(scheme string) string { return map[string]string{"http": "80", "https": "443"}[scheme] }

// splitAuthority returns host and port of an authority without user. All names of this machine are
// one host.
func splitAuthority(authority string) (host, port string) {
	host = strings.ToLower(authority)
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	return nameOf(host), port
}

// nameOf returns a host in a form that can be compared, without escapes. A name of other letters
// than those of ASCII is not the same as its form with xn--.
func nameOf(host string) string {
	if plain, err := url.PathUnescape(host); err == nil {
		host = plain
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		var ok bool
		if addr, ok = parseIPv4(host); !ok {
			return host
		}
	}
	if addr = addr.Unmap(); addr.IsLoopback() || addr.IsUnspecified() {
		return "localhost"
	}
	return addr.String()
}

// parseIPv4 reads an IPv4 address as browsers and the system do: of one to four numbers, each
// decimal, octal after 0, or hexadecimal after 0x. The last one fills all bytes that are left.
func parseIPv4(host string) (_ netip.Addr, ok bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		digits, base := part, 10
		if rest, ok := strings.CutPrefix(part, "0x"); ok {
			digits, base = "0"+rest, 16
		} else if len(part) > 1 && part[0] == '0' {
			base = 8
		}
		n, err := strconv.ParseUint(digits, base, 64)
		if err != nil || n>>bits != 0 {
			return netip.Addr{}, false
		}
		sum = sum<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

// findUpstream returns the upstream with this authority, or nil. Of several, it is the one whose
// path is the longest that the URL's path begins with. The scheme is empty if it is that of the
// client's request. A service may take it from X-Forwarded-Proto, so it need not be the upstream's.
func (a *Addresses) findUpstream(scheme, authority, path string) *address {
	host, port := splitAuthority(authority)
	var best *address
	longest := -1
	for i := range a.all {
		x := &a.all[i]
		if x.host != host || port != x.port && (port != "" || !x.portOmitted && portOf(scheme) != x.port) {
			continue
		}
		length := 0
		if _, ok := x.cutPath(path); ok {
			length = 1 + len(x.path)
		}
		if length > longest {
			best, longest = x, length
		}
	}
	return best
}

// Hide replaces URLs of upstreams in the fields of an answer that clients follow: Location,
// Content-Location, Refresh and the targets and anchors of Link become references to the path.
// resource_metadata of WWW-Authenticate has to be absolute (RFC 9728), so it becomes the URL of the
// path at the client's host, unless that is empty. Hide removes the Domain of a cookie if it is an
// upstream's host, so that a browser accepts the cookie for the gateway's, unless it is a domain of
// the client's host. It removes Alt-Svc if that names an upstream.
func (a *Addresses) Hide(h http.Header, c Client) {
	for _, name := range []string{"Location", "Content-Location"} {
		editValues(h[name], a.hideURL)
	}
	editValues(h["Refresh"], a.hideInRefresh)
	editValues(h["Link"], func(v string) string { return editParameter(v, `<"`, "anchor", a.hideURL) })
	editValues(h["Www-Authenticate"], func(v string) string {
		return editParameter(v, `"`, "resource_metadata", func(target string) string { return c.absoluteURL(target, a.hideURL(target)) })
	})
	if cookies := h["Set-Cookie"]; len(cookies) > 0 {
		host, _, _ := strings.Cut(strings.ToLower(c.Host), ":")
		editValues(cookies, func(cookie string) string { return a.removeDomain(cookie, host) })
	}
	if slices.ContainsFunc(h["Alt-Svc"], a.namesUpstream) {
		delete(h, "Alt-Svc")
	}
}

// Client is what the request of a client says about the address that the client has called.
type Client struct {
	Scheme string
	Host   string // with the port
}

// absoluteURL returns a reference to a path as a URL of the address that the client has called, if
// the reference is not what the target was.
func (c Client) absoluteURL(target, reference string) string {
	if reference == target || c.Scheme == "" || c.Host == "" || strings.ContainsAny(c.Host, `"\/, `) {
		return reference
	}
	return c.Scheme + "://" + c.Host + reference
}

// editValues replaces each value of a field.
func editValues(values []string, by func(string) string) {
	for i, v := range values {
		values[i] = by(v)
	}
}

// hideURL returns a URL of an upstream as a reference to its path, and any other unchanged. It
// finds the authority where browsers do, which take \ for /, leave tabs out, and skip controls.
// After a scheme that is not that of the page they need no slashes.
func (a *Addresses) hideURL(target string) string {
	u := strings.TrimFunc(strings.ReplaceAll(target, "\t", ""), func(r rune) bool { return r <= ' ' })
	scheme, rest := "", u
	if before, after, ok := strings.Cut(u, ":"); ok && portOf(strings.ToLower(before)) != "" {
		scheme, rest = strings.ToLower(before), after
	}
	authority := strings.TrimLeft(rest, `/\`)
	if scheme == "" && len(rest)-len(authority) < 2 {
		return target
	}
	path := ""
	if i := strings.IndexAny(authority, `/\?#`); i >= 0 {
		authority, path = authority[:i], authority[i:]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	x := a.findUpstream(scheme, authority, path)
	if x == nil {
		return target
	}
	return x.referenceTo(path)
}

// cutPath returns what comes after the upstream's path in path, if that begins with it.
func (x *address) cutPath(path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, x.path)
	return rest, ok && (rest == "" || strings.IndexByte(`/\?#`, rest[0]) >= 0)
}

// referenceTo returns a reference to a path of the upstream, as the client has to ask for it. It
// never begins with two slashes, which would name another host.
func (x *address) referenceTo(path string) string {
	if rest, ok := x.cutPath(path); ok {
		path = rest
	}
	if path == "" || path[0] != '/' && path[0] != '\\' {
		return "/" + path
	}
	if path = "/" + path[1:]; len(path) > 1 && (path[1] == '/' || path[1] == '\\') {
		return "/." + path // RFC 3986, section 4.2
	}
	return path
}

// hideInRefresh edits a Refresh field: a number of seconds, and optionally a URL. A semicolon, a
// comma or white space alone separates them.
func (a *Addresses) hideInRefresh(v string) string {
	begin := countSpaces(v)
	i := strings.IndexAny(v[begin:], ";, \t")
	if i < 0 {
		return v
	}
	begin += i + countSpaces(v[begin+i:])
	if begin < len(v) && (v[begin] == ';' || v[begin] == ',') {
		begin += 1 + countSpaces(v[begin+1:])
	}
	if rest := v[begin:]; len(rest) > 3 && strings.EqualFold(rest[:3], "url") {
		after := 3 + countSpaces(rest[3:])
		if after < len(rest) && rest[after] == '=' {
			begin += after + 1 + countSpaces(rest[after+1:])
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
	return v[:begin] + a.hideURL(v[begin:end]) + v[end:]
}

// countSpaces counts the white space that s begins with.
func countSpaces(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// separators end a value that is not quoted.
const separators = "\";,<> \t"

// editParameter edits the value of a parameter, quoted or not, and what is in <> if that is one of
// the marks. They begin what is passed over: all other quoted strings.
func editParameter(v, marks, parameter string, by func(string) string) string {
	var b strings.Builder
	for i := 0; i < len(v); {
		mark, end := byte(0), -1
		if strings.IndexByte(marks, v[i]) >= 0 {
			if mark = v[i]; mark == '<' {
				mark = '>'
			}
			end = closingIndex(v[i+1:], mark)
		}
		switch {
		case end >= 0:
			text := v[i+1 : i+1+end]
			if mark == '>' || endsWithParameter(v[:i], parameter) {
				text = by(text)
			}
			b.WriteByte(v[i])
			b.WriteString(text)
			b.WriteByte(mark)
			i += end + 2
		case strings.IndexByte(separators, v[i]) < 0 && endsWithParameter(v[:i], parameter):
			bare := v[i:]
			if j := strings.IndexAny(bare, separators); j >= 0 {
				bare = bare[:j]
			}
			b.WriteString(by(bare))
			i += len(bare)
		default:
			b.WriteByte(v[i])
			i++
		}
	}
	return b.String()
}

// closingIndex returns the index of the mark that ends s, or -1. In a quoted string a backslash
// escapes.
func closingIndex(s string, mark byte) int {
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

// endsWithParameter reports whether the text before a value ends with the name of a parameter and
// =.
func endsWithParameter(before, parameter string) bool {
	name, ok := strings.CutSuffix(strings.TrimRight(before, " \t"), "=")
	name = strings.TrimRight(name, " \t")
	return ok && len(name) >= len(parameter) && strings.EqualFold(name[len(name)-len(parameter):], parameter)
}

// removeDomain edits a Set-Cookie field; host is the one that the client has called.
func (a *Addresses) removeDomain(v, host string) string {
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

// namesUpstream reports whether an Alt-Svc field names an upstream.
func (a *Addresses) namesUpstream(v string) bool {
	for i, quoted := range strings.Split(v, `"`) {
		if i%2 == 1 && !strings.HasPrefix(quoted, ":") && a.findUpstream("", quoted, "") != nil {
			return true
		}
	}
	return false
}
