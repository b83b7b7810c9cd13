package clientaddr

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Of returns the address that a request came from. If that is a trusted server, it is the last
// address in X-Forwarded-For that is not trusted: anyone may have written what stands before it. Of
// IPv6 it returns the network of 64 bits.
func Of(r *http.Request, trusted []netip.Prefix) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := from.Addr().Unmap().WithZone("")
	ours := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0 && ours(addr); i-- {
		hop := strings.TrimSpace(hops[i])
		next, err := netip.ParseAddr(hop)
		if withPort, wrong := netip.ParseAddrPort(hop); err != nil && wrong == nil {
			next, err = withPort.Addr(), nil // as some balancers write it
		}
		if err != nil {
			break
		}
		addr = next.Unmap().WithZone("")
	}
	if addr.Is6() { // a caller with one address has the whole network
		if p, err := addr.Prefix(64); err == nil {
			return p.String()
		}
	}
	return addr.String()
}
