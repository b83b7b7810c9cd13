package httpsig_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestAlgorithms tests that each algorithm signs and is verified, also with the public key alone.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, want := range map[string]httpsig.Algorithm{"hmac": httpsig.HMACSHA256, "ed": httpsig.Ed25519, "ec": httpsig.ECDSAP256SHA256} {
		assert.Equal(t, w.keys[id].Algorithm(), want, "algorithm")
		for range 20 { // r and s of ECDSA sometimes have leading zeros
			assert.Equal(t, w.send(w.sign(payment(t), w.signer(id))), "accepted", "%s (%s)", id, w.reason())
		}
		if id == "hmac" {
			continue
		}
		public := must[httpsig.Key](t)(httpsig.PublicKey(publicOf(t, w, id)))
		assert.True(t, !public.CanSign(), "a public key cannot sign")
		half := newWorld(t, func(o *httpsig.Options) { o.Keys = httpsig.Keyring{id: {public}} })
		assert.Equal(t, half.send(half.sign(payment(t), w.signer(id))), "accepted", "%s by its public key (%s)", id, half.reason())
	}
}

// TestRotation tests that the old and the new key are both accepted, each in its time, and that the
// caller stays the same.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.clock.now()
	before, after, unused := w.keys["hmac"], must[httpsig.Key](t)(httpsig.SharedKey(secret(40))), must[httpsig.Key](t)(httpsig.SharedKey(secret(32)))
	old, next, far := before, after, unused
	old.NotAfter, next.NotBefore, far.NotBefore = start.Add(time.Hour), start.Add(30*time.Minute), start.Add(1000*time.Hour)
	w.options.Keys = httpsig.Keyring{"shop": {far, old, next}}
	for _, c := range []struct {
		at        time.Duration
		old, next string
	}{
		{0, "accepted", "signature-refused"},
		{45 * time.Minute, "accepted", "accepted"},
		{time.Hour, "accepted", "accepted"},
		{61 * time.Minute, "signature-refused", "accepted"},
	} {
		w.clock.forward(start.Add(c.at).Sub(w.clock.now()))
		for key, want := range map[*httpsig.Key]string{&before: c.old, &after: c.next, &unused: "signature-refused"} {
			got := w.send(w.sign(payment(t), &httpsig.Signer{KeyID: "shop", Key: *key, Now: w.clock.now}))
			assert.Equal(t, got, want, "after %v (%s)", c.at, w.reason())
		}
	}
	assert.Equal(t, w.served.Load(), int64(6), "accepted")
}

// TestCaller tests that the handler knows the signer, and that keys of several ids may belong to
// one caller.
func TestCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	named := w.keys["ed"]
	named.Principal = "shop"
	w.options.Keys = httpsig.Keyring{"hmac": {w.keys["hmac"]}, "ed": {named}}
	for id, principal := range map[string]string{"hmac": "hmac", "ed": "shop"} {
		assert.Equal(t, w.send(w.sign(payment(t), w.signer(id))), "accepted", "request")
		r := w.last.Load()
		assert.Equal(t, keyID(r.Context()), id, "key id")
		tenant, err := httpsig.Tenant(r)
		assert.True(t, err == nil && tenant == principal, "tenant %q, %v", tenant, err)
		c, ok := httpsig.CallerFrom(r.Context())
		assert.True(t, ok && c.Created.Equal(w.clock.now().Truncate(time.Second)), "created %v", c.Created)
		assert.Equal(t, fmt.Sprint(c.Covered), "[@method @authority @path @query content-digest content-type idempotency-key]", "covered")
		assert.Equal(t, *w.body.Load(), `{"note":"rent"}`, "body")
	}
	assert.Equal(t, keyID(t.Context()), "", "without a request")
	_, err := httpsig.Tenant(payment(t))
	assert.True(t, err != nil, "an unsigned request has no tenant")
}

// TestKeysThatCannotBeAsked tests that the client is asked to retry if the lookup of keys fails.
func TestKeysThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	away := errors.New("the service of keys is away")
	w := newWorld(t, func(o *httpsig.Options) {
		o.Keys = httpsig.KeysFunc(func(context.Context, string) ([]httpsig.Key, error) { return nil, away })
	})
	assert.Equal(t, w.send(w.sign(payment(t), w.signer("ed"))), "store-unavailable", "answer")
	assert.ErrorIs(t, w.why.Load(), away, "the log")
}

// TestBadKeys tests that bad keys are refused when they are made, and that a key does not print its
// secret.
func TestBadKeys(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	assert.NoError(t, err, "p384")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	assert.NoError(t, err, "rsa")
	for name, f := range map[string]func() (httpsig.Key, error){
		"a short secret":       func() (httpsig.Key, error) { return httpsig.SharedKey(secret(31)) },
		"no secret":            func() (httpsig.Key, error) { return httpsig.SharedKey(nil) },
		"a short public key":   func() (httpsig.Key, error) { return httpsig.PublicKey(ed25519.PublicKey(secret(31))) },
		"another curve":        func() (httpsig.Key, error) { return httpsig.PublicKey(&p384.PublicKey) },
		"another curve, whole": func() (httpsig.Key, error) { return httpsig.PrivateKey(p384) },
		"no point": func() (httpsig.Key, error) {
			return httpsig.PublicKey(&ecdsa.PublicKey{Curve: elliptic.P256(), X: big.NewInt(1), Y: big.NewInt(1)}) //nolint:staticcheck // this key must be refused
		},
		"half a point":      func() (httpsig.Key, error) { return httpsig.PublicKey(&ecdsa.PublicKey{Curve: elliptic.P256()}) },
		"RSA":               func() (httpsig.Key, error) { return httpsig.PrivateKey(rsaKey) },
		"nothing":           func() (httpsig.Key, error) { return httpsig.PrivateKey(nil) },
		"no public key":     func() (httpsig.Key, error) { return httpsig.PublicKey(nil) },
		"a public key, nil": func() (httpsig.Key, error) { return httpsig.PublicKey((*ecdsa.PublicKey)(nil)) },
	} {
		_, err := f()
		assert.True(t, err != nil, "%s", name)
	}
	text := secret(32)
	k := must[httpsig.Key](t)(httpsig.SharedKey(text))
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.Equal(t, fmt.Sprintf(form, k), "httpsig.Key(hmac-sha256)", "printed")
	}
}
