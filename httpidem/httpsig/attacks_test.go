package httpsig_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// replace changes one place of a message, and fails if it is not there.
func replace(tb testing.TB, wire, from, to string) string {
	tb.Helper()
	assert.Contains(tb, wire, from, "the message")
	return strings.Replace(wire, from, to, 1)
}

// line returns the value of a field of a message.
func line(tb testing.TB, wire, name string) string {
	tb.Helper()
	_, rest, ok := strings.Cut(wire, "\r\n"+name+": ")
	assert.True(tb, ok, "%s in the message", name)
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// without removes a field.
func without(tb testing.TB, wire, name string) string {
	tb.Helper()
	return replace(tb, wire, "\r\n"+name+": "+line(tb, wire, name), "")
}

// with adds a field.
func with(tb testing.TB, wire, text string) string {
	tb.Helper()
	return replace(tb, wire, "\r\n\r\n", "\r\n"+text+"\r\n\r\n")
}

// TestAttacks tests that an attacker who has seen a signed request, and has no key, cannot make the
// service do anything else, and that the genuine request is accepted afterwards, since refused
// requests use up no nonce.
func TestAttacks(t *testing.T) {
	t.Parallel()
	type attack struct {
		change func(w *world, wire string) string
		code   string
		reason string // part of what the log says
	}
	edit := func(from, to string) func(*world, string) string {
		return func(w *world, wire string) string { return replace(w.t, wire, from, to) }
	}
	// of copies a field from another request that the client has signed.
	of := func(names ...string) func(*world, string) string {
		return func(w *world, wire string) string {
			r := payment(w.t)
			r.URL.Path = "/pay/mallory"
			other := w.sign(r, w.signer("hmac"))
			for _, name := range names {
				wire = replace(w.t, wire, line(w.t, wire, name), line(w.t, other, name))
			}
			return wire
		}
	}
	attacks := map[string]attack{
		"another body":                {edit("rent", "gold"), "signature-refused", "another body's"},
		"another body and its digest": {func(w *world, wire string) string { return redigest(w.t, replace(w.t, wire, "rent", "gold")) }, "signature-refused", "not of this request"},
		"a longer body": {func(w *world, wire string) string {
			return replace(w.t, wire, "Content-Length: 15", "Content-Length: 17") + "  "
		}, "signature-refused", "another body's"},
		"no body": {edit("Content-Length: 15", "Content-Length: 0"), "signature-refused", "another body's"},
		"a body in chunks": {func(w *world, wire string) string {
			return replace(w.t, replace(w.t, wire, "Content-Length: 15", "Transfer-Encoding: chunked"), `{"note":"rent"}`, "f\r\n{\"note\":\"gold\"}\r\n0\r\n\r\n")
		}, "signature-refused", "another body's"},
		"another path":                   {edit("/pay/alice", "/pay/mallory"), "signature-refused", "not of this request"},
		"the path with a slash encoded":  {edit("/pay/alice", "/pay%2Falice"), "signature-refused", "not of this request"},
		"the path with a letter encoded": {edit("/pay/alice", "/pay/%61lice"), "signature-refused", "not of this request"},
		"the path with dots":             {edit("/pay/alice", "/x/../pay/alice"), "signature-refused", "not of this request"},
		"another query":                  {edit("amount=100", "amount=900"), "signature-refused", "not of this request"},
		"a longer query":                 {edit("amount=100", "amount=100&to=mallory"), "signature-refused", "not of this request"},
		"no query":                       {edit("?amount=100", ""), "signature-refused", "not of this request"},
		"the query encoded otherwise":    {edit("amount=100", "amount=%3100"), "signature-refused", "not of this request"},
		"another method":                 {edit("POST ", "PUT "), "signature-refused", "not of this request"},
		"another host":                   {edit("bank.example", "evil.example"), "signature-refused", "not of this request"},
		"another port":                   {edit("bank.example", "bank.example:8080"), "signature-refused", "not of this request"},
		"absolute form for another host": {edit("POST /pay", "POST http://evil.example/pay"), "signature-refused", "not of this request"},
		"another idempotency key":        {edit("7c5a9f3b2d1e4860", "7c5a9f3b2d1e4861"), "signature-refused", "not of this request"},
		"the idempotency key stripped":   {func(w *world, wire string) string { return without(w.t, wire, "Idempotency-Key") }, "signature-refused", "idempotency-key: it is not in the request"},
		"a second idempotency key":       {func(w *world, wire string) string { return with(w.t, wire, "Idempotency-Key: another") }, "signature-refused", "more than once"},
		"the same idempotency key twice": {func(w *world, wire string) string {
			return with(w.t, wire, "idempotency-key: 7c5a9f3b2d1e4860")
		}, "signature-refused", "more than once"},
		"another content type": {edit("application/json", "text/plain"), "signature-refused", "not of this request"},
		"a content coding":     {func(w *world, wire string) string { return with(w.t, wire, "Content-Encoding: gzip") }, "signature-refused", "content-encoding: the signature has to cover it"},
		"the digest removed":   {func(w *world, wire string) string { return without(w.t, wire, "Content-Digest") }, "signature-refused", "content-digest: it is not in the request"},
		"a weak digest": {func(w *world, wire string) string {
			return replace(w.t, wire, line(w.t, wire, "Content-Digest"), "md5=:XrY7u+Ae7tCTyyK7j1rNww==:")
		}, "signature-refused", "not of this request"},
		"a second digest": {func(w *world, wire string) string {
			return with(w.t, wire, "Content-Digest: md5=:XrY7u+Ae7tCTyyK7j1rNww==:")
		}, "signature-refused", "more than once"},
		"the signature of another request":  {of("Signature", "Signature-Input"), "signature-refused", "not of this request"},
		"the parameters of another request": {of("Signature-Input"), "signature-refused", "not of this request"},
		"the value of another request":      {of("Signature"), "signature-refused", "not of this request"},
		"another key id":                    {edit(`keyid="hmac"`, `keyid="ed"`), "signature-refused", "not of this request"},
		"an unknown key id":                 {edit(`keyid="hmac"`, `keyid="nobody"`), "signature-refused", "the key is unknown"},
		"a later time":                      {edit(";created=", ";created=1"), "signature-refused", "not of this request"},
		"another nonce":                     {edit(`nonce="`, `nonce="x`), "signature-refused", "not of this request"},
		"no nonce": {func(_ *world, wire string) string {
			return regexp.MustCompile(`;nonce="[^"]*"`).ReplaceAllString(wire, "")
		}, "signature-refused", "a parameter"},
		"a short nonce": {func(_ *world, wire string) string {
			return regexp.MustCompile(`;nonce="[^"]*"`).ReplaceAllString(wire, `;nonce="1"`)
		}, "signature-refused", "a parameter"},
		"no time": {func(_ *world, wire string) string {
			return regexp.MustCompile(`;created=\d*`).ReplaceAllString(wire, "")
		}, "signature-refused", "a parameter"},
		"a time that is text": {func(_ *world, wire string) string {
			return regexp.MustCompile(`;created=(\d*)`).ReplaceAllString(wire, `;created="$1"`)
		}, "signature-refused", "a parameter"},
		"no key id":                       {edit(`;keyid="hmac"`, ""), "signature-refused", "a parameter"},
		"an unknown parameter":            {edit(`;keyid=`, `;audience="all";keyid=`), "signature-refused", "a parameter"},
		"a parameter twice":               {edit(`;keyid="hmac"`, `;keyid="hmac";keyid="hmac"`), "signature-refused", "has something twice"},
		"another tag":                     {edit(`tag="retrysafe"`, `tag="other"`), "signature-missing", "no signature has the tag"},
		"no tag":                          {edit(`;tag="retrysafe"`, ""), "signature-missing", "no signature has the tag"},
		"another algorithm":               {edit(`;keyid=`, `;alg="ed25519";keyid=`), "signature-refused", "another algorithm"},
		"no algorithm":                    {edit(`;keyid=`, `;alg="none";keyid=`), "signature-refused", "another algorithm"},
		"the right algorithm put in":      {edit(`;keyid=`, `;alg="hmac-sha256";keyid=`), "signature-refused", "not of this request"},
		"a component less":                {edit(`"@method" `, ""), "signature-refused", "@method: the signature has to cover it"},
		"a component less, not asked for": {edit(` "content-type"`, ""), "signature-refused", "content-type: the signature has to cover it"},
		"a component twice":               {edit(`"@method" `, `"@method" "@method" `), "signature-refused", "covers something twice"},
		"a component with a parameter":    {edit(`"@method" `, `"@method";req `), "signature-refused", "has parameters"},
		"a component that is a token":     {edit(`"@method" `, `method `), "signature-refused", "has parameters"},
		"an unknown component":            {edit(`"@query" `, `"@query" "@status" `), "signature-refused", "cannot cover it"},
		"a field in upper case":           {edit(`"content-type"`, `"content-type" "Accept"`), "signature-refused", "cannot cover it"},
		"components in another order":     {edit(`"@method" "@authority"`, `"@authority" "@method"`), "signature-refused", "not of this request"},
		"no signature":                    {func(w *world, wire string) string { return without(w.t, wire, "Signature") }, "signature-missing", ""},
		"no parameters":                   {func(w *world, wire string) string { return without(w.t, wire, "Signature-Input") }, "signature-missing", ""},
		"another label":                   {edit("Signature: retrysafe=", "Signature: other="), "signature-refused", "no value"},
		"a label twice":                   {func(w *world, wire string) string { return with(w.t, wire, "Signature: retrysafe=:AAAA:") }, "signature-refused", "has something twice"},
		"a label twice, of parameters": {func(w *world, wire string) string {
			return with(w.t, wire, `Signature-Input: retrysafe=("@method");created=1;keyid="hmac";nonce="0123456789abcdef";tag="retrysafe"`)
		}, "signature-refused", "has something twice"},
		"two signatures with the tag": {func(w *world, wire string) string {
			return with(w.t, with(w.t, wire, "Signature-Input: second="+strings.TrimPrefix(line(w.t, wire, "Signature-Input"), "retrysafe=")), "Signature: second=:AAAA:")
		}, "signature-refused", "several signatures"},
		"a signature that is text": {func(w *world, wire string) string {
			return replace(w.t, wire, line(w.t, wire, "Signature"), `retrysafe="AAAA"`)
		}, "signature-refused", "no value"},
		"an empty signature": {func(w *world, wire string) string {
			return replace(w.t, wire, line(w.t, wire, "Signature"), `retrysafe=::`)
		}, "signature-refused", "no value"},
		"half a signature": {func(w *world, wire string) string {
			v := line(w.t, wire, "Signature")
			return replace(w.t, wire, v, v[:len(v)-9]+":")
		}, "signature-refused", "not of this request"},
		"a signature with a parameter": {func(w *world, wire string) string {
			v := line(w.t, wire, "Signature")
			return replace(w.t, wire, v, v+";x")
		}, "signature-refused", "no value"},
		"a signature of nothing": {func(w *world, wire string) string {
			return regexp.MustCompile(`=\([^)]*\)`).ReplaceAllString(wire, "=()")
		}, "signature-refused", "covers something twice, too much, or nothing"},
		"no dictionary": {func(w *world, wire string) string {
			return replace(w.t, wire, line(w.t, wire, "Signature-Input"), `retrysafe=(((`)
		}, "signature-refused", "no dictionary"},
		"a very long field": {func(w *world, wire string) string {
			return with(w.t, wire, `Signature-Input: a=("`+strings.Repeat("a", 100<<10)+`")`)
		}, "signature-refused", "8 KiB"},
		"a thousand labels": {func(w *world, wire string) string {
			return with(w.t, wire, "Signature-Input: "+many(1000, `l%d=("@method")`))
		}, "signature-refused", "8 KiB"},
		"a thousand lines": {func(w *world, wire string) string {
			return with(w.t, wire, strings.Repeat("Signature: x=:AAAA:\r\n", 1000)+"X: y")
		}, "signature-refused", "8 KiB"},
		"a hundred components": {func(w *world, wire string) string {
			return replace(w.t, wire, `=("@method"`, `=("@method" `+strings.ReplaceAll(many(100, `"x%d"`), ",", " "))
		}, "signature-refused", "too much"},
	}
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wire := w.sign(payment(t), w.signer("hmac"))
			forged := a.change(w, wire)
			assert.NotEqual(t, forged, wire, "the attack")
			assert.Equal(t, w.send(forged), a.code, "the attack (%s)", w.reason())
			assert.Contains(t, w.reason(), a.reason, "the log")
			assert.Equal(t, w.store.Len(), 0, "nonces that were burned")
			assert.Equal(t, w.send(wire), "accepted", "the true request (%s)", w.reason())
			assert.Equal(t, w.send(wire), "nonce-used", "the true request again")
		})
	}
}

func many(n int, form string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(form, i)
	}
	return strings.Join(all, ", ")
}

// redigest sets Content-Digest to the digest of the body.
func redigest(tb testing.TB, wire string) string {
	tb.Helper()
	_, body, _ := strings.Cut(wire, "\r\n\r\n")
	sum := sha256.Sum256([]byte(body))
	return replace(tb, wire, line(tb, wire, "Content-Digest"), "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
}

// TestSignaturesThatAreTrueAndNotEnough tests a client that has a key, and does not sign what it
// must.
func TestSignaturesThatAreTrueAndNotEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *httpsig.Options) { o.Require, o.IfPresent = []string{"idempotency-key"}, []string{"x-account"} })
	bare := payment(t)
	bare.Header.Del("Idempotency-Key")
	assert.Equal(t, w.send(w.sign(bare, w.signer("hmac"))), "signature-refused", "a route that requires the idempotency key")
	assert.Contains(t, w.reason(), "idempotency-key", "the log")

	account := payment(t)
	account.Header.Set("X-Account", "7")
	assert.Equal(t, w.send(w.sign(account, w.signer("hmac"))), "signature-refused", "a field that the service goes by")
	s := w.signer("hmac")
	s.Cover = []string{"x-account"}
	account = payment(t)
	account.Header.Set("X-Account", "7")
	wire := w.sign(account, s)
	assert.Equal(t, w.send(replace(t, wire, "X-Account: 7", "X-Account: 8")), "signature-refused", "changed")
	assert.Equal(t, w.send(wire), "accepted", "covered (%s)", w.reason())

	// A request without a body, to which an attacker adds one.
	get, err := http.NewRequestWithContext(t.Context(), "GET", "http://bank.example/accounts", http.NoBody)
	assert.NoError(t, err, "request")
	get.Header.Set("Idempotency-Key", "1")
	wire = w.sign(get, w.signer("hmac"))
	for _, forged := range []string{
		with(t, wire, "Content-Length: 4") + "evil", with(t, wire, "Transfer-Encoding: chunked") + "4\r\nevil\r\n0\r\n\r\n",
		with(t, wire, "Content-Type: text/plain"), with(t, wire, "Content-Digest: sha-256=:AAAA:"),
	} {
		assert.Equal(t, w.send(forged), "signature-refused", "%s", forged)
	}
	assert.Equal(t, w.send(wire), "accepted", "%s", w.reason())
}

// TestDigests tests that a body needs a strong digest, and that every strong digest must match.
func TestDigests(t *testing.T) {
	t.Parallel()
	for digest, want := range map[string]string{
		"sha-256=:BBBB:":                 "signature-refused",
		"md5=:XrY7u+Ae7tCTyyK7j1rNww==:": "signature-refused",
		"sha=:AAAA:":                     "signature-refused",
		"":                               "signature-refused",
		"sha-256":                        "signature-refused",
		`sha-256="x"`:                    "signature-refused",
		"sha-256=(:AAAA:)":               "signature-refused",
		"sha-256=:aaI/QeYpfVKWH4M6RXcBsKVn2Zw8o0CaIuIT7CWq9Ag=:, sha-512=:AAAA:": "signature-refused",
		sha256Of("tea"):                                       "accepted",
		sha256Of("tea") + ", md5=:AAAA:":                      "accepted",
		sha256Of("tea") + ", sha-512=:A:":                     "signature-refused",
		"md5=:AAAA:, " + sha256Of("tea"):                      "accepted",
		sha256Of("tee"):                                       "signature-refused",
		sha256Of("tea") + ", sha-512=:QQ==:":                  "signature-refused",
		"sha-256=:AAAA:, " + sha256Of("tea"):                  "signature-refused",
		strings.ToUpper(sha256Of("tea")[:7]) + ":AAAA:":       "signature-refused",
		sha256Of("tea") + ", " + sha256Of("tea") + ", sha=:a": "signature-refused",
	} {
		w := newWorld(t)
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://bank.example/", strings.NewReader("tea"))
		assert.NoError(t, err, "request")
		wire := w.resign(r, func(h http.Header) { h.Set("Content-Digest", digest) })
		assert.Equal(t, w.send(wire), want, "%q (%s)", digest, w.reason())
	}
}

func sha256Of(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// TestAlgorithmConfusion tests that the public key, which everyone knows, is not accepted as a
// shared secret.
func TestAlgorithmConfusion(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"ed", "ec"} {
		for _, alg := range []string{"", `;alg="hmac-sha256"`} {
			w := newWorld(t)
			der, err := x509.MarshalPKIXPublicKey(publicOf(t, w, id))
			assert.NoError(t, err, "public key")
			forged := must[httpsig.Key](t)(httpsig.SharedKey(der))
			wire := w.sign(payment(t), &httpsig.Signer{KeyID: id, Key: forged, Now: w.clock.now})
			if alg != "" {
				wire = replace(t, wire, ";keyid=", alg+";keyid=")
			}
			assert.Equal(t, w.send(wire), "signature-refused", "%s %s", id, alg)
		}
	}
}

// TestMalleableSignatures tests that a signature of ECDSA that was turned into another valid one
// has the same nonce.
func TestMalleableSignatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wire := w.sign(payment(t), w.signer("ec"))
	text := strings.TrimSuffix(strings.TrimPrefix(line(t, wire, "Signature"), "retrysafe=:"), ":")
	sig, err := base64.StdEncoding.DecodeString(text)
	assert.NoError(t, err, "signature")
	n, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	n.Sub(n, new(big.Int).SetBytes(sig[32:])).FillBytes(sig[32:])
	other := replace(t, wire, text, base64.StdEncoding.EncodeToString(sig))
	assert.Equal(t, w.send(other), "accepted", "the other signature is right as well")
	assert.Equal(t, w.send(wire), "nonce-used", "the first")
}

// TestSpacesAround tests spaces around a value, which a parser of messages may keep: what is passed
// on is what was signed.
func TestSpacesAround(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wire := w.sign(payment(t), w.signer("hmac"))
	for _, name := range []string{"Idempotency-Key", "Content-Type"} {
		r := parse(t, wire)
		r.Header[name] = []string{r.Header.Get(name) + " "}
		assert.Equal(t, w.serve(r), "signature-refused", "%s", name)
		assert.Contains(t, w.reason(), "spaces", "the log")
	}
	assert.Equal(t, w.send(wire), "accepted", "%s", w.reason())
}

// TestSignaturesOfAnotherLength tests that r and s have 32 bytes each, with nothing before or after
// them.
func TestSignaturesOfAnotherLength(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"hmac", "ed", "ec"} {
		w := newWorld(t)
		wire := w.sign(payment(t), w.signer(id))
		text := strings.TrimSuffix(strings.TrimPrefix(line(t, wire, "Signature"), "retrysafe=:"), ":")
		sig, err := base64.StdEncoding.DecodeString(text)
		assert.NoError(t, err, "signature")
		half := len(sig) / 2
		for _, forged := range [][]byte{
			sig[:1], sig[:half], sig[:len(sig)-1], append(sig[:len(sig):len(sig)], 0), append([]byte{0}, sig...),
			append(append(sig[:half:half], 0), sig[half:]...), make([]byte, len(sig)), make([]byte, 5000),
		} {
			got := w.send(replace(t, wire, text, base64.StdEncoding.EncodeToString(forged)))
			assert.Equal(t, got, "signature-refused", "%s: %d bytes", id, len(forged))
		}
		assert.Equal(t, w.send(wire), "accepted", "%s (%s)", id, w.reason())
	}
}

// TestTimes tests that a signature is valid from its creation, less the skew, to its end, plus the
// skew.
func TestTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		life, after time.Duration
		want        string
	}{
		{time.Hour, 0, "accepted"},
		{time.Hour, -30 * time.Second, "accepted"},
		{time.Hour, -31 * time.Second, "signature-expired"},
		{time.Hour, 5*time.Minute + 30*time.Second, "accepted"},
		{time.Hour, 5*time.Minute + 31*time.Second, "signature-expired"},
		{time.Hour, 24 * time.Hour, "signature-expired"},
		{10 * time.Second, 40 * time.Second, "accepted"},
		{10 * time.Second, 41 * time.Second, "signature-expired"},
	} {
		w := newWorld(t)
		s := w.signer("ed")
		s.Life = c.life
		wire := w.sign(payment(t), s)
		w.clock.forward(c.after)
		assert.Equal(t, w.send(wire), c.want, "life %v, after %v (%s)", c.life, c.after, w.reason())
		assert.Equal(t, w.store.Len() == 1, c.want == "accepted", "nonces")
	}
}
