package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/httpidem"
)

// incoming takes out of a request what only we or a trusted server may say, and refuses what the
// service could read in another way than the guard; an empty text: it may go on.
func (g *Gateway) incoming(r *http.Request) (refused string, status int) {
	for _, name := range fromUs {
		delete(r.Header, name)
	}
	r.Trailer = nil // what comes after a body has passed none of these rules
	front := len(g.trusted) > 0 && g.fromFront(r)
	if !front {
		for _, name := range g.strip {
			delete(r.Header, name)
		}
	}
	g.foldUnderscores(r.Header, front)
	g.onlyNamedUpgrades(r.Header)
	switch {
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		return "This server takes no CONNECT and no TRACE.", http.StatusMethodNotAllowed
	case strings.ContainsFunc(r.RequestURI, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		// over HTTP/2
		return "The path of this request has a space or a control character; encode it.", http.StatusBadRequest
	case g.dropsWhatCounts(r.Header):
		return "Connection names a field that does not end here; take it out of Connection.", http.StatusBadRequest
	}
	return "", 0
}

// foldUnderscores takes out fields that many services (CGI, WSGI and their like) take for one of
// those that only we or a trusted server may set, or by which the guard goes.
func (g *Gateway) foldUnderscores(h http.Header, front bool) {
	for name := range h {
		if !strings.Contains(name, "_") {
			continue
		}
		folded := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if slices.Contains(fromUs, folded) || slices.Contains(forwardedFields, folded) || g.counts[folded] || !front && slices.Contains(g.strip, folded) {
			delete(h, name)
		}
	}
}

// onlyNamedUpgrades lets a connection become a tunnel only for websocket and what Options.Upgrades
// names: past it no request is seen. Others are served as plain HTTP/1.1, as a server may that does
// not know them (RFC 9110, section 7.8): some clients ask for h2c with each request.
func (g *Gateway) onlyNamedUpgrades(h http.Header) {
	for _, line := range h["Upgrade"] {
		for token := range strings.SplitSeq(line, ",") {
			token = strings.TrimSpace(token)
			if !strings.EqualFold(token, "websocket") && !slices.ContainsFunc(g.upgrades, func(u string) bool { return strings.EqualFold(u, token) }) {
				delete(h, "Upgrade")
				return
			}
		}
	}
}

// dropsWhatCounts tells whether Connection takes away a field by which the guard goes: the service
// would see another request.
func (g *Gateway) dropsWhatCounts(h http.Header) bool {
	connection := h["Connection"]
	if len(connection) == 0 {
		return false
	}
	for name := range g.counts {
		if h[name] != nil && named(connection, name) {
			return true
		}
	}
	return false
}

// counting adds the fields by which a guard goes.
func (g *Gateway) counting(o *httpidem.Options, signed bool) {
	names := []string{"Authorization", "Cookie", "Content-Type", "Content-Encoding"}
	if signed {
		names = append(names, "Signature", "Signature-Input", "Content-Digest", "Date", "Digest")
	}
	if c := o.Credentials; c != nil {
		names = append(names, c.HeaderSecret)
		for _, b := range c.Binding {
			if kind, name, _ := strings.Cut(b, ":"); kind == "header" {
				names = append(names, name)
			}
		}
	}
	for _, name := range slices.Concat(names, g.strip) {
		if name != "" {
			g.counts[http.CanonicalHeaderKey(name)] = true
		}
	}
}
