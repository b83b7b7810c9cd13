package httpsig_test

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTargets tests that whatever a client can write as an address arrives as it was signed, and
// that each address has a path different from all others.
func TestTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	targets := []string{
		"/", "/pay/alice", "/pay/mallory", "/pay%2Falice", "/pay%2falice", "/pay/%61lice", "/pay//alice", "//pay/alice", "/pay/alice/", "/pay/./alice", "/pay/../alice",
		"/pay/al%20ice", "/pay;v=1/alice", "/p%C3%A4y", "/pay/alice%00", "/pay/a+b", "/pay/a%2Bb", "/*", "/pay:alice", "/pay/(alice)", "/pay/%28alice%29",
		"/pay?a=1", "/pay?a=1&a=2", "/pay?a=2&a=1", "/pay?a=%31", "/pay?A=1", "/pay?a", "/pay?a=", "/pay?a=b?c", "/pay?;", "/pay??", "/pay?a=1#x",
	}
	wires := make([]string, len(targets))
	for i, target := range targets {
		r := payment(t)
		u, err := url.Parse("http://bank.example" + target)
		assert.NoError(t, err, "%s", target)
		r.URL = u
		wires[i] = w.sign(r, w.signer("hmac"))
	}
	requestTarget := func(wire string) string { return strings.Split(wire, " ")[1] }
	for i, wire := range wires {
		for j, other := range wires {
			if requestTarget(wire) == requestTarget(other) {
				continue
			}
			forged := replace(t, wire, " "+requestTarget(wire)+" ", " "+requestTarget(other)+" ")
			assert.Equal(t, w.send(forged), "signature-refused", "%s as %s", targets[i], targets[j])
		}
	}
	for i, wire := range wires {
		assert.Equal(t, w.send(wire), "accepted", "%s (%s)", targets[i], w.reason())
	}
}

// TestForms tests that the different forms of one address are the same address.
func TestForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for from, to := range map[string]string{
		"POST /pay":                "POST http://bank.example/pay",
		"/pay/alice?amount=100 ":   "HTTP://BANK.example:80/pay/alice?amount=100 ",
		"Host: bank.example\r\n":   "Host: Bank.Example:80\r\n",
		"Host: bank.example\r\nUs": "Host:   bank.example  \r\nUs",
	} {
		wire := w.sign(payment(t), w.signer("hmac"))
		assert.Equal(t, w.send(replace(t, wire, from, to)), "accepted", "%q (%s)", to, w.reason())
	}
	r := payment(t)
	r.Header.Set("Content-Type", " \tapplication/json ")
	assert.Equal(t, w.send(w.sign(r, w.signer("hmac"))), "accepted", "a field with spaces around it (%s)", w.reason())
	r = payment(t)
	assert.NoError(t, w.signer("ed").Sign(r), "sign")
	twice := w.sign(r, w.signer("hmac"))
	assert.Equal(t, strings.Count(twice, "retrysafe="), 2, "one signature, in two fields")
	assert.Equal(t, w.send(twice), "accepted", "signed again (%s)", w.reason())
	assert.Equal(t, keyID(w.last.Load().Context()), "hmac", "the last signature counts")
	r = payment(t)
	r.URL = &url.URL{Scheme: "http", Host: "bank.example"}
	wire := w.sign(r, w.signer("hmac"))
	assert.Equal(t, w.send(replace(t, wire, "POST / ", "POST http://bank.example ")), "accepted", "no path (%s)", w.reason())
	r = payment(t)
	r.URL = &url.URL{Scheme: "http", Host: "bank.example", Path: "/", ForceQuery: true}
	assert.Equal(t, w.send(w.sign(r, w.signer("hmac"))), "accepted", "an empty query (%s)", w.reason())
}

// TestScheme tests that a request that is signed with @target-uri for https is refused over http,
// and the other way round.
func TestScheme(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		w := newWorld(t, func(o *httpsig.Options) { o.Require = []string{"@target-uri", "@scheme"} })
		r := payment(t)
		r.URL.Scheme = scheme
		s := w.signer("ec")
		s.Cover = []string{"@target-uri", "@scheme", "host", "content-length"}
		wire := w.sign(r, s)
		secure := parse(t, wire)
		secure.TLS = &tls.ConnectionState{}
		want := map[bool]string{true: "accepted", false: "signature-refused"}
		if scheme == "http" {
			assert.Equal(t, w.serve(secure), want[false], "http over TLS")
			assert.Equal(t, w.send(wire), want[true], "http (%s)", w.reason())
			continue
		}
		assert.Equal(t, w.send(wire), want[false], "https without TLS")
		assert.Equal(t, w.serve(secure), want[true], "https (%s)", w.reason())
	}
}

// TestRewrittenPath tests that a handler in front that removes a prefix of the path does not change
// what was signed.
func TestRewrittenPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := http.StripPrefix("/pay", w.handler())
	rec := &status{header: http.Header{}}
	h.ServeHTTP(rec, parse(t, w.sign(payment(t), w.signer("hmac"))))
	assert.Equal(t, rec.code, 0, "accepted (%s)", w.reason())
	assert.Equal(t, w.last.Load().URL.Path, "/alice", "the handler's path")
}

type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header       { return s.header }
func (*status) Write(b []byte) (int, error) { return len(b), nil }
func (s *status) WriteHeader(code int)      { s.code = code }

// TestWhatCannotBeSigned tests that it is an error, and that nothing is sent.
func TestWhatCannotBeSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(r *http.Request){
		"an opaque address":       func(r *http.Request) { r.URL = &url.URL{Scheme: "http", Opaque: "//evil.example/x"} },
		"an opaque address, host": func(r *http.Request) { r.URL.Opaque = "//evil.example/x" },
		"no address":              func(r *http.Request) { r.URL = nil },
		"no host":                 func(r *http.Request) { r.URL.Host, r.Host = "", "" },
		"CONNECT":                 func(r *http.Request) { r.Method = "CONNECT" },
		"a host of other letters": func(r *http.Request) { r.Host = "bänk.example" },
		"a host with a zone":      func(r *http.Request) { r.Host = "[fe80::1%25en0]" },
		"a field twice":           func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} },
		"a field in another case": func(r *http.Request) { r.Header["idempotency-key"] = []string{"a"} },
		"a line feed in a field":  func(r *http.Request) { r.Header.Set("Content-Type", "text/plain\n\"@method\": GET") },
		"other letters":           func(r *http.Request) { r.Header.Set("Idempotency-Key", "ä") },
		"a line feed in a method": func(r *http.Request) { r.Method = "GET\n\"@path\": /" },
		"trailers":                func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
		"a large body":            func(r *http.Request) { r.Body = zeros(1<<20 + 1); r.ContentLength = -1 },
		"a short body":            func(r *http.Request) { r.ContentLength = 16 },
		"a body that is missing":  func(r *http.Request) { r.Body = nil },
		"a broken signature":      func(r *http.Request) { r.Header.Set("Signature", "(((") },
	} {
		r := payment(t)
		change(r)
		err := w.signer("hmac").Sign(r)
		assert.True(t, err != nil && strings.Contains(err.Error(), "nothing was sent"), "%s: %v", name, err)
	}
}
