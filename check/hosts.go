package check

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// hostFilter says which hosts are examined: those of allow, and each on the loopback interface.
type hostFilter struct{ allow []string }

// dial connects to addr. The address that a name has is looked at here, where it is used: a name
// that was on the loopback interface a moment ago may have another address by now.
func (h hostFilter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	if h.isAllowed(host) {
		return d.DialContext(ctx, network, addr)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(ips, func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() }); i >= 0 {
		return nil, &HostError{Host: host, Address: ips[i].Unmap().String()}
	}
	for _, ip := range ips {
		var c net.Conn
		if c, err = d.DialContext(ctx, network, net.JoinHostPort(ip.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func (h hostFilter) isAllowed(host string) bool {
	return slices.ContainsFunc(h.allow, func(a string) bool { return strings.EqualFold(a, host) })
}

// HostError says that a host is not examined, as it is neither on the loopback interface nor
// allowed.
type HostError struct{ Host, Address string }

// Error says what to do.
func (e *HostError) Error() string {
	if ip, err := netip.ParseAddr(e.Address); err == nil && ip.IsUnspecified() {
		return e.Host + " stands for all addresses of this machine; write localhost, where the service listens too"
	}
	what := e.Host + " is"
	if e.Host != e.Address {
		what = fmt.Sprintf("%s has the address %s, which is", e.Host, e.Address)
	}
	return fmt.Sprintf("%s not an address of the loopback interface of this machine, and each check acts on the API; "+
		"if it may be examined, allow it: Options.Allow, or --allow %s", what, e.Host)
}

// samePlace reports whether two URLs have one port of one host. Addresses of the loopback interface
// are one host, and so are those that stand for all addresses.
func samePlace(a, b *url.URL) bool {
	return effectivePort(a) == effectivePort(b) && (strings.EqualFold(a.Hostname(), b.Hostname()) || isLocalHost(a.Hostname()) && isLocalHost(b.Hostname()))
}

func isLocalHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}

func effectivePort(u *url.URL) string {
	if u.Port() == "" && u.Scheme == "https" {
		return "443"
	}
	return cmp.Or(u.Port(), "80")
}
