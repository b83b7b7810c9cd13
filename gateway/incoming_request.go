package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/gateway/internal/once"
	"github.com/retrysafe/retrysafe/httpidem"
)

// screenRequest removes from a request the fields that only the gateway or a trusted server may
// set. It refuses a request that the service could read differently from the guard, and returns
// what the client should change. An empty text means that the request may proceed.
func (g *Gateway) screenRequest(r *http.Request) (advice string) {
	for _, name := range gatewayFields {
		delete(r.Header, name)
	}
	r.Trailer = nil // fields after a body have not been checked by these rules
	trusted := len(g.trusted) > 0 && g.fromTrustedProxy(r)
	if !trusted {
		for _, name := range g.strippedFields {
			delete(r.Header, name)
		}
	}
	g.foldUnderscores(r.Header, trusted)
	g.onlyNamedUpgrades(r.Header)
	switch {
	case strings.ContainsFunc(r.RequestURI, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		// possible over HTTP/2
		return "The path has a space or a control character: encode it."
	case g.keepHost && !isPlainHost(r.Host):
		return "The Host is no name and no address: send that of this service."
	case g.dropsGuardField(r.Header):
		return "Connection names a field that the service needs: take it out of Connection."
	}
	return ""
}

// isPlainHost reports whether a Host has only bytes that a host and a port can have.
func isPlainHost(host string) bool {
	return !strings.ContainsFunc(host, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		return !letter && !('0' <= c && c <= '9') && !strings.ContainsRune(".:-[]_", c)
	})
}

// foldUnderscores removes fields whose name many services (CGI, WSGI and similar) read as a field
// that only the gateway or a trusted server may set, or that a guard decides by.
func (g *Gateway) foldUnderscores(h http.Header, trusted bool) {
	for name := range h {
		if !strings.Contains(name, "_") {
			continue
		}
		folded := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if slices.Contains(gatewayFields, folded) || slices.Contains(forwardedFields, folded) || g.guardFields[folded] || !trusted && slices.Contains(g.strippedFields, folded) {
			delete(h, name)
		}
	}
}

// onlyNamedUpgrades lets a connection become a tunnel only for websocket and the protocols of
// Options.Upgrades, since the gateway sees no requests inside a tunnel. Requests with another
// Upgrade are served as plain HTTP/1.1, as a server may do that does not know the protocol (RFC
// 9110, section 7.8): some clients ask for h2c with each request.
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

// dropsGuardField reports whether Connection removes a field that a guard decides by. The service
// would then see another request.
func (g *Gateway) dropsGuardField(h http.Header) bool {
	connection := h["Connection"]
	if len(connection) == 0 {
		return false
	}
	for name := range g.guardFields {
		if h[name] != nil && once.ConnectionNames(connection, name) {
			return true
		}
	}
	return false
}

// addGuardFields adds the fields that a guard decides by.
func (g *Gateway) addGuardFields(o *httpidem.Options, signed bool) {
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
	for _, name := range slices.Concat(names, g.strippedFields) {
		if name != "" {
			g.guardFields[http.CanonicalHeaderKey(name)] = true
		}
	}
}
