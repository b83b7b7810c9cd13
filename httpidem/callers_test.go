package httpidem_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func payAs(h http.Handler, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/pay", strings.NewReader("pay=1"))
	r.Header.Set("Idempotency-Key", "0123456789012345678901-victim")
	change(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func secretive(c *httpidem.Credentials, runs *int) http.Handler {
	e := retrysafe.New(memstore.New(nil), nil)
	return httpidem.New(e, &httpidem.Options{Credentials: c}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*runs++
		_, _ = w.Write([]byte("secret of " + r.Header.Get("Cookie") + r.Header.Get("X-Who")))
	}))
}

// TestCookieWithoutAValue: a caller whose cookie is empty is anonymous, and bound to its cookies.
func TestCookieWithoutAValue(t *testing.T) {
	t.Parallel()
	var runs int
	h := secretive(&httpidem.Credentials{Cookie: "login"}, &runs)
	payAs(h, func(r *http.Request) { r.Header.Set("Cookie", "sid=victim") })
	w := payAs(h, func(r *http.Request) { r.Header.Set("Cookie", "login=; sid=attacker") })
	if w.Code != http.StatusConflict || strings.Contains(w.Body.String(), "victim") {
		t.Errorf("the attacker got: %d %s", w.Code, w.Body)
	}
	w = payAs(h, func(r *http.Request) { r.Header.Set("Cookie", `login=""; sid=attacker`) })
	if w.Code != http.StatusConflict {
		t.Errorf("with empty quotes the attacker got: %d %s", w.Code, w.Body)
	}
}

// TestCertificatesWithoutASubject: certificates that name their holder in alternative names alone
// (SPIFFE, cert-manager) are told apart, and one that names no holder is refused.
func TestCertificatesWithoutASubject(t *testing.T) {
	t.Parallel()
	var runs int
	h := secretive(&httpidem.Credentials{Certificate: true}, &runs)
	subject, _ := asn1.Marshal(pkix.Name{}.ToRDNSequence())
	as := func(who string) func(*http.Request) {
		return func(r *http.Request) {
			c := &x509.Certificate{Raw: []byte(who), RawSubject: subject, DNSNames: []string{who}}
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
			r.Header.Set("X-Who", who)
		}
	}
	payAs(h, as("ann"))
	w := payAs(h, as("bob"))
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "ann") {
		t.Errorf("bob got: %d %s", w.Code, w.Body)
	}
	w = payAs(h, func(r *http.Request) {
		as("no one")(r)
		r.TLS.PeerCertificates[0].DNSNames = nil
	})
	if w.Code != http.StatusForbidden {
		t.Errorf("a certificate without names got: %d %s", w.Code, w.Body)
	}
}

// TestFieldsTakeTheConfiguredCredential: where a cookie is configured, a made-up Authorization
// header makes no new caller, who would have a vote more.
func TestFieldsTakeTheConfiguredCredential(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	votes := 0
	h := httpidem.New(e, &httpidem.Options{
		Credentials: &httpidem.Credentials{Cookie: "session"},
		Key:         httpidem.Fields,
		Request:     httpidem.RequestOptions{Operation: func(*http.Request) string { return "vote" }, Fields: []string{"pay"}},
	}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { votes++ }))
	for i, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Cookie", "session=ann") },
		func(r *http.Request) {
			r.Header.Set("Cookie", "SESSION=ann")
			r.Header.Set("Authorization", "Bearer r1")
		},
		func(r *http.Request) {
			r.Header.Set("Cookie", "x=1 session=ann")
			r.Header.Set("Authorization", "Bearer r2")
		},
	} {
		w := payAs(h, func(r *http.Request) {
			r.Header.Del("Idempotency-Key")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			change(r)
		})
		if votes != 1 {
			t.Errorf("request %d: %d votes, status %d %s", i, votes, w.Code, w.Body)
		}
	}
}
