package httpsig_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// written returns a public key of w as it is in a file.
func written(tb testing.TB, w *world, id string) string {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(publicOf(tb, w, id))
	assert.NoError(tb, err, "public key")
	return base64.StdEncoding.EncodeToString(der)
}

// TestReadKeyring tests that keys of a file verify what their owners sign.
func TestReadKeyring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shared := secret(32)
	w.keys["hmac"] = must[httpsig.Key](t)(httpsig.SharedKey(shared))
	ring, err := httpsig.ReadKeyring(strings.NewReader("# keys\n\n" +
		"hmac hmac-sha256 " + base64.StdEncoding.EncodeToString(shared) + "\n" +
		"  ed\ted25519   " + written(t, w, "ed") + " principal=shop not-after=2026-11-22T08:00:00Z not-before=2026-01-01T00:00:00+01:00\r\n" +
		"ec ecdsa-p256-sha256 " + written(t, w, "ec") + "\n" +
		"ec ed25519 " + written(t, w, "ed")))
	assert.NoError(t, err, "read")
	assert.Equal(t, len(ring["ec"]), 2, "keys of one id")
	assert.Equal(t, ring["ed"][0].NotBefore.UTC(), time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC), "not before")
	w.options.Keys = ring
	for id := range w.keys {
		assert.Equal(t, w.send(w.sign(payment(t), w.signer(id))), "accepted", "%s (%s)", id, w.reason())
		c, _ := httpsig.CallerFrom(w.last.Load().Context())
		assert.Equal(t, c.Principal, map[string]string{"hmac": "hmac", "ed": "shop", "ec": "ec"}[id], "principal")
	}
	w.clock.forward(time.Second)
	assert.Equal(t, w.send(w.sign(payment(t), w.signer("ed"))), "signature-refused", "after its time")
}

// TestReadKeyringOfMistakes tests that an error names the line, and does not show its content.
func TestReadKeyringOfMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ed, hmac := written(t, w, "ed"), base64.StdEncoding.EncodeToString(secret(32))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	assert.NoError(t, err, "rsa")
	other, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	assert.NoError(t, err, "rsa")
	for text, want := range map[string]string{
		"a ed25519":                    "an id, an algorithm and a key",
		"a":                            "an id, an algorithm and a key",
		"a ed25519 " + ed[1:]:          "not in base64",
		"a ed25519 " + hmac:            "form of PKIX",
		"a hmac-sha256 c2hvcnQ=":       "at least 32",
		"a ecdsa-p256-sha256 " + ed:    "of another algorithm",
		"a none " + ed:                 "of another algorithm",
		"a hmac-sha512 " + hmac:        "form of PKIX",
		"a hmac-sha256 " + hmac + " x": "each once",
		"a ed25519 " + ed + " not-after=tomorrow":             "each once",
		"a ed25519 " + ed + " principal=":                     "each once",
		"a ed25519 " + ed + " principal=b principal=c":        "each once",
		"a ed25519 " + ed + " not-after=0001-01-01T00:00:00Z": "each once",
		"a rsa " + base64.StdEncoding.EncodeToString(other):   "a public key cannot be a",
		"ä ed25519 " + ed:                                     "printable ASCII",
	} {
		_, err := httpsig.ReadKeyring(strings.NewReader("# first\n" + text))
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q: %v", want, err)
		assert.True(t, want == "printable ASCII" || strings.Contains(err.Error(), "line 2"), "the line: %v", err)
		assert.True(t, !strings.Contains(err.Error(), ed[:20]) && !strings.Contains(err.Error(), hmac[:20]), "a key in %v", err)
	}
	broken := errors.New("broken")
	_, err = httpsig.ReadKeyring(iotest.ErrReader(broken))
	assert.ErrorIs(t, err, broken, "a reader that fails")
}

// FuzzReadKeyring checks that what is read is a ring that a verifier accepts.
func FuzzReadKeyring(f *testing.F) {
	f.Add("shop hmac-sha256 " + base64.StdEncoding.EncodeToString(make([]byte, 32)) + " not-after=2027-01-01T00:00:00Z\n")
	f.Add("# x\nshop ed25519 MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs= principal=a\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		ring, err := httpsig.ReadKeyring(strings.NewReader(text))
		if err != nil {
			return
		}
		assert.NoError(t, ring.Validate(), "the ring of %q", text)
		for id, keys := range ring {
			assert.True(t, strings.Contains(text, id+"\t") || strings.Contains(text, id) && len(keys) > 0, "the id %q", id)
		}
	})
}
