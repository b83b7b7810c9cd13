package httpsig_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*httpsig.Options){
		"Keys is not set":          func(o *httpsig.Options) { o.Keys = nil },
		"Nonces is not set":        func(o *httpsig.Options) { o.Nonces = nil },
		"has no key":               func(o *httpsig.Options) { o.Keys = httpsig.Keyring{"a": nil} },
		"or a zero Key":            func(o *httpsig.Options) { o.Keys = httpsig.Keyring{"a": {{}}} },
		"1 to 255 characters":      func(o *httpsig.Options) { o.Keys = httpsig.Keyring{"": {{}}} },
		"use http or https":        func(o *httpsig.Options) { o.Scheme = "ftp" },
		"Authorities has":          func(o *httpsig.Options) { o.Authorities = []string{"https://bank.example"} },
		"write fields in lower":    func(o *httpsig.Options) { o.Require = []string{"Idempotency-Key"} },
		`"@status" is nothing`:     func(o *httpsig.Options) { o.Require = []string{"@status"} },
		`"" is nothing`:            func(o *httpsig.Options) { o.IfPresent = []string{""} },
		"use 1s to 24h":            func(o *httpsig.Options) { o.MaxAge = 25 * time.Hour },
		"use 1s to 1h":             func(o *httpsig.Options) { o.Skew = -1 },
		"positive number of bytes": func(o *httpsig.Options) { o.MaxBody = -1 },
		"leave one out":            func(o *httpsig.Options) { o.Tag, o.Untagged = "x", true },
		"printable ASCII":          func(o *httpsig.Options) { o.Tag = "ä" },
	} {
		o := newWorld(t, change).options
		err := o.Validate()
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q: %v", want, err)
		func() {
			defer func() { assert.True(t, recover() != nil, "New panics") }()
			httpsig.New(&o)
		}()
	}
	func() {
		defer func() { assert.True(t, recover() != nil, "New without options panics") }()
		httpsig.New(nil)
	}()
	func() {
		defer func() { assert.True(t, recover() != nil, "NoncesOn without an engine panics") }()
		httpsig.NoncesOn(nil)
	}()
}

func TestSignersAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	public := must[httpsig.Key](t)(httpsig.PublicKey(publicOf(t, w, "ed")))
	for want, change := range map[string]func(*httpsig.Signer){
		"cannot sign":              func(s *httpsig.Signer) { s.Key = public },
		"use SharedKey":            func(s *httpsig.Signer) { s.Key = httpsig.Key{} },
		"1 to 255 characters":      func(s *httpsig.Signer) { s.KeyID = "" },
		"use 1s to 24h":            func(s *httpsig.Signer) { s.Life = time.Millisecond },
		"positive number of bytes": func(s *httpsig.Signer) { s.MaxBody = -1 },
		"nothing that a signature": func(s *httpsig.Signer) { s.Cover = []string{"signature"} },
		"leave one out":            func(s *httpsig.Signer) { s.Tag, s.Untagged = "x", true },
	} {
		s := w.signer("hmac")
		change(s)
		err := s.Sign(payment(t))
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q: %v", want, err)
	}
}

// TestTags tests that the signature with the tag counts, and that others are ignored.
func TestTags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		client, server func(s *httpsig.Signer, o *httpsig.Options)
		want           string
	}{
		{func(s *httpsig.Signer, _ *httpsig.Options) { s.Tag = "bank" }, func(_ *httpsig.Signer, o *httpsig.Options) { o.Tag = "bank" }, "accepted"},
		{func(s *httpsig.Signer, _ *httpsig.Options) { s.Tag = "bank" }, nil, "signature-missing"},
		{func(s *httpsig.Signer, _ *httpsig.Options) { s.Untagged = true }, func(_ *httpsig.Signer, o *httpsig.Options) { o.Untagged = true }, "accepted"},
		{func(s *httpsig.Signer, _ *httpsig.Options) { s.Untagged = true }, nil, "signature-missing"},
		{nil, func(_ *httpsig.Signer, o *httpsig.Options) { o.Untagged = true }, "signature-missing"},
	} {
		w := newWorld(t)
		s := w.signer("ec")
		for _, f := range []func(*httpsig.Signer, *httpsig.Options){c.client, c.server} {
			if f != nil {
				f(s, &w.options)
			}
		}
		assert.Equal(t, w.send(w.sign(payment(t), s)), c.want, "%s", w.reason())
	}
	w := newWorld(t)
	r := payment(t)
	r.Header.Set("Signature-Input", `proxy=("@method");created=1;keyid="x"`)
	r.Header.Set("Signature", "proxy=:AAAA:")
	wire := w.sign(r, w.signer("hmac"))
	assert.Contains(t, wire, "proxy=:AAAA:", "the other signature stays")
	assert.Equal(t, w.send(wire), "accepted", "beside another signature (%s)", w.reason())
}

// TestAuthorities tests that a request that was signed for one service is refused by another that
// has the same keys.
func TestAuthorities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ own, scheme, sent, want string }{
		{"bank.example", "", "bank.example", "accepted"},
		{"BANK.example:80", "", "bank.example", "accepted"},
		{"bank.example", "https", "bank.example:443", "accepted"},
		{"bank.example", "", "bank.example:443", "signature-refused"},
		{"shop.example", "", "bank.example", "signature-refused"},
		{"bank.example:8080", "", "bank.example", "signature-refused"},
	} {
		w := newWorld(t, func(o *httpsig.Options) { o.Authorities, o.Scheme = []string{"other.example", c.own}, c.scheme })
		r := payment(t)
		r.Host = c.sent
		if c.scheme != "" {
			r.URL.Scheme = c.scheme
		}
		assert.Equal(t, w.send(w.sign(r, w.signer("hmac"))), c.want, "%+v (%s)", c, w.reason())
	}
}

// TestAnswers tests the address of the problem pages, the call of OnRefused, and what happens to a
// body that is not read.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *httpsig.Options) { o.Docs = "https://docs.example/" })
	rec := httptest.NewRecorder()
	w.handler().ServeHTTP(rec, payment(t))
	assert.Contains(t, rec.Body.String(), `"type":"https://docs.example/signature-missing.md"`, "answer")
	assert.Equal(t, rec.Header().Get("Connection"), "close", "the body is not read")
	w.options.Docs = ""
	rec = httptest.NewRecorder()
	w.handler().ServeHTTP(rec, payment(t))
	assert.Contains(t, rec.Body.String(), httpidem.DefaultDocs+"signature-missing.md", "answer")
	for _, text := range []string{rec.Body.String(), w.reason()} {
		assert.True(t, !strings.Contains(text, "7c5a9f3b2d1e4860"), "neither has the key: %s", text)
	}
	w.options.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request, err error) {
		rw.WriteHeader(http.StatusTeapot)
		_, _ = rw.Write([]byte(err.Error()))
	}
	rec = httptest.NewRecorder()
	w.handler().ServeHTTP(rec, payment(t))
	assert.Equal(t, rec.Code, http.StatusTeapot, "status")
	assert.Contains(t, rec.Body.String(), "signature-missing", "answer")
	rec = httptest.NewRecorder()
	httpsig.New(&w.options).Refuse(rec, payment(t), errors.New("something else"))
	assert.Contains(t, w.reason(), "signature-refused: something else", "an error of the caller")
}
