package httpidem

import (
	"errors"
	"net"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// Account returns a function that names whom limits and rates count: a name that only a caller with
// the secret can use. It is a digest of the whole credential, since anyone can send the user id of
// Basic or the subject of a bearer token. Callers without a credential are counted by address; if
// address is nil, by that of the connection. A caller that invents a credential for each request is
// counted as a new caller each time; the service must refuse such credentials.
func (c *Credentials) Account(e *retrysafe.Engine, address func(*http.Request) string) func(*http.Request) string {
	own := *c
	own.HeaderSecret = http.CanonicalHeaderKey(c.HeaderSecret)
	if address == nil {
		address = remoteHost
	}
	return func(r *http.Request) string {
		if header := r.Header.Get("Authorization"); header != "" {
			return digestOf(e, "credential", wholeOf(header))
		}
		if who, err := own.tenant(e, r); err == nil && who != "" {
			return who
		}
		return "address:" + address(r)
	}
}

func remoteHost(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// secret reports whether only the owner of a secret, verified or not, can have the tenant of r.
func (c *Credentials) secret(r *http.Request, tenant string) bool {
	if tenant == "" {
		return false
	}
	header := r.Header.Get("Authorization")
	if header != "" && (c.Cookie != "" || c.HeaderSecret != "" || c.Certificate) {
		// no one has verified it, and a caller could hide the configured credential with it
		return false
	}
	return header == "" || !hasName(header)
}

var errOnlyNamed = errors.New("keys that are made of fields need a tenant that no one else can name: a user id of Basic or an unverified token is none, and where a cookie, a header or a certificate is configured only that counts")
