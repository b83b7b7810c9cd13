package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// TestCertificateOfATrustedProxy: a trusted server before the gateway shows a certificate of its
// own, and says in Client-Cert what its client's is. The service gets the client's, or none.
func TestCertificateOfATrustedProxy(t *testing.T) {
	t.Parallel()
	g := &Gateway{trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	r := httptest.NewRequest("POST", "https://gw/", nil)
	r.RemoteAddr = "10.1.2.3:555"
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte("the proxy's own")}}}
	r.Header["Client-Cert"] = []string{":Y2xpZW50:"}
	got := map[string]string{}
	g.eachForwardedField(r, func(n, v string) { got[n] = v })
	if got["Client-Cert"] != ":Y2xpZW50:" {
		t.Errorf("the service gets %q, not the client's certificate", got["Client-Cert"])
	}
	delete(r.Header, "Client-Cert")
	clear(got)
	g.eachForwardedField(r, func(n, v string) { got[n] = v })
	if got["Client-Cert"] != "" {
		t.Errorf("the service gets %q, though the client has shown none", got["Client-Cert"])
	}
}
