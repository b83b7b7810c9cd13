package httpidem

import (
	"errors"
	"net"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// Account returns whom limits and rates count: a name that nobody can use who does not have the
// caller's secret. It is a digest of the whole credential, for a stranger can say the user id of
// Basic or the subject of a bearer token as well; callers who have none are counted by address, nil
// for that of the connection. What is made up for each request is counted each time apart, and is
// for the service to refuse.
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

// secret tells whether the tenant of r is one that only the owner of a secret can have, verified or
// not.
func (c *Credentials) secret(r *http.Request, tenant string) bool {
	if tenant == "" {
		return false
	}
	header := r.Header.Get("Authorization")
	return header == "" || !hasName(header)
}

var errOnlyNamed = errors.New("keys that are made of fields need a tenant that nobody else can name: a user id of Basic or an unverified token is none")
