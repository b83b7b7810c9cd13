package admin

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// TrustedProxy is a server before this one that has authenticated the caller, such as an
// identity-aware proxy. Its fields are believed only from its addresses.
type TrustedProxy struct {
	// Addresses are those of the server.
	Addresses []netip.Prefix
	// UserHeader has the caller's name, for example X-Forwarded-User.
	UserHeader string
	// RolesHeader has names with commas, for example X-Forwarded-Groups. Roles says which of them
	// gives which roles; others give none.
	RolesHeader string
	Roles       map[string]Roles
}

// Validate reports what of f is missing. A nil TrustedProxy is valid.
func (f *TrustedProxy) Validate() error {
	switch {
	case f == nil:
		return nil
	case len(f.Addresses) == 0:
		return errors.New("admin: TrustedProxy has no Addresses; name those of the server, or anyone could set its fields")
	case slices.ContainsFunc(f.Addresses, func(p netip.Prefix) bool { return !p.IsValid() || p.Addr().Is4In6() }):
		return errors.New("admin: TrustedProxy has an address that is none, or an IPv4 address in the form of IPv6; write it as 10.0.0.0/8")
	case f.UserHeader == "" || f.RolesHeader == "":
		return errors.New("admin: TrustedProxy needs UserHeader and RolesHeader")
	case len(f.Roles) == 0:
		return errors.New("admin: TrustedProxy has no Roles; say which group may do what")
	}
	return nil
}

// anonymous is the name of a caller on the loopback interface without a token.
const anonymous = "loopback"

// The values of [Entry.Origin]: how the name of an entry is known.
const (
	OriginToken    = "token"    // the server knows the caller by its token
	OriginProxy    = "proxy"    // a trusted proxy has named the person
	OriginLoopback = "loopback" // a caller on the server's machine, of no name
	OriginCommand  = "command"  // a command got the name with --by, and no one has checked it
)

var (
	errNoToken     = errors.New("give a token, as Authorization: Bearer …")
	errToken       = errors.New("this token is not known; it may have been replaced")
	errTwoTokens   = errors.New("the field Authorization is there twice; send one token")
	errTokenNeeded = errors.New("give a token, as Authorization: Bearer …; a caller on this machine needs one too, since this server has tokens or a server before it")
	errProxied     = errors.New("a request without a token may view only if it comes straight from this machine, and this one came through a proxy or from a page of another site; give a token")
	errNoRole      = errors.New("the server before this one names no person, or none with a role here; log in there, ask for a group that has a role, or give a token")
	errFieldsTwice = errors.New("the fields for the person or the groups are there twice; the server before this one must remove those of its clients")
	errUserName    = errors.New("the name of the person has more than 200 bytes, or characters that cannot be printed")
)

// identifyCaller returns who sent r, and how that is known. A caller on this machine without a
// token may view if there are neither tokens nor a trusted proxy: a proxy on this machine may make
// the callers of another one look like that, without a sign of it. An error means that the caller
// gets nothing.
func (s *Server) identifyCaller(r *http.Request) (c Caller, origin string, err error) {
	viaProxy := s.o.TrustedProxy.isPeer(r.RemoteAddr)
	if viaProxy {
		if c, err := s.o.TrustedProxy.callerFromFields(r.Header); err != nil || c.Roles != 0 {
			return c, OriginProxy, err
		}
	}
	switch auth := r.Header.Values("Authorization"); {
	case len(auth) > 1:
		return c, "", errTwoTokens
	case len(auth) == 1:
		scheme, token, _ := strings.Cut(auth[0], " ")
		c, ok := s.o.Tokens.callerOf(strings.TrimSpace(token))
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return Caller{}, "", errToken
		}
		return c, OriginToken, nil
	case viaProxy: // its own address, even the loopback interface, gives no role to its clients
		return c, "", errNoRole
	case !isLoopback(r.RemoteAddr):
		return c, "", errNoToken
	case !isDirect(r):
		return c, "", errProxied
	case s.o.Tokens != nil || s.o.TrustedProxy != nil:
		return c, "", errTokenNeeded
	}
	return Caller{Name: anonymous, Roles: View}, OriginLoopback, nil
}

// isPeer reports whether addr is one of f's. A nil TrustedProxy has none.
func (f *TrustedProxy) isPeer(addr string) bool {
	if f == nil {
		return false
	}
	peer, err := netip.ParseAddrPort(addr)
	return err == nil && slices.ContainsFunc(f.Addresses, func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) })
}

// mostName bounds the name of a person, in bytes.
const mostName = 200

// callerFromFields returns the caller that f reports. It has no roles if f reports none. If a field
// is there twice, one of them may come from the client.
func (f *TrustedProxy) callerFromFields(h http.Header) (c Caller, err error) {
	users, groups := h.Values(f.UserHeader), h.Values(f.RolesHeader)
	switch {
	case len(users) > 1 || len(groups) > 1:
		return c, errFieldsTwice
	case len(users) == 0 || users[0] == "" || len(groups) == 0:
		return c, nil
	case !isText(users[0], mostName):
		return c, errUserName
	}
	c.Name = users[0]
	for group := range strings.SplitSeq(groups[0], ",") {
		c.Roles |= f.Roles[strings.TrimSpace(group)]
	}
	return c, nil
}

func isLoopback(addr string) bool {
	peer, err := netip.ParseAddrPort(addr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// proxyFieldPrefixes begin the names of fields that proxies add. Some proxies write underscores for
// hyphens.
var proxyFieldPrefixes = []string{
	"forwarded", "via", "x-forwarded", "x-real-ip", "x-original", "x-client-ip", "x-cluster-client-ip", "x-envoy-", "x-amzn-", "x-azure-",
	"client-ip", "true-client-ip", "cf-", "fastly-", "fly-", "akamai-", "x-proxy", "x-proxied", "proxy-", "x-rewrite-url", "cdn-loop",
}

// hasProxyFields reports whether a field shows that a request came through a proxy.
func hasProxyFields(h http.Header) bool {
	for name := range h {
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if slices.ContainsFunc(proxyFieldPrefixes, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			return true
		}
	}
	return false
}

// isDirect reports whether a request came from this machine without help: not through a proxy, and
// not from a page of another site. Clients speak HTTP/1.1 or newer; a proxy may speak HTTP/1.0 and
// add no field. A page whose name was made to point here (DNS rebinding) has that name in Host.
func isDirect(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) || hasProxyFields(r.Header) || !isLoopbackHost(r.Host) {
		return false
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin != "http://"+r.Host && origin != "https://"+r.Host {
			return false
		}
	}
	return true
}

// isCrossSite reports whether a browser says that a page of another site sent r.
func isCrossSite(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), func(site string) bool { return site != "same-origin" && site != "none" })
}

func isLoopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}
