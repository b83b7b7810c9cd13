package http_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	crand "crypto/rand"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	oracle "github.com/yaronf/httpsign"

	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// sides are one key in httpsig and in another implementation of RFC 9421, for signing and
// verifying.
type sides struct {
	ours     httpsig.Key
	signer   func(*oracle.SignConfig, oracle.Fields) (*oracle.Signer, error)
	verifier func(*oracle.VerifyConfig, oracle.Fields) (*oracle.Verifier, error)
}

func bothSides(t *testing.T) map[string]sides {
	t.Helper()
	secret := make([]byte, 64)
	_, _ = crand.Read(secret)
	public, private, err := ed25519.GenerateKey(crand.Reader)
	assert.NoError(t, err, "ed25519")
	ec, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	assert.NoError(t, err, "ecdsa")
	key := func(k httpsig.Key, err error) httpsig.Key {
		assert.NoError(t, err, "key")
		return k
	}
	private2 := func(s crypto.Signer) httpsig.Key { return key(httpsig.PrivateKey(s)) }
	return map[string]sides{
		"hmac-sha256": {
			key(httpsig.SharedKey(secret)),
			func(c *oracle.SignConfig, f oracle.Fields) (*oracle.Signer, error) {
				return oracle.NewHMACSHA256Signer(secret, c, f)
			},
			func(c *oracle.VerifyConfig, f oracle.Fields) (*oracle.Verifier, error) {
				return oracle.NewHMACSHA256Verifier(secret, c, f)
			},
		},
		"ed25519": {
			private2(private),
			func(c *oracle.SignConfig, f oracle.Fields) (*oracle.Signer, error) {
				return oracle.NewEd25519Signer(private, c, f)
			},
			func(c *oracle.VerifyConfig, f oracle.Fields) (*oracle.Verifier, error) {
				return oracle.NewEd25519Verifier(public, c, f)
			},
		},
		"ecdsa-p256-sha256": {
			private2(ec),
			func(c *oracle.SignConfig, f oracle.Fields) (*oracle.Signer, error) {
				return oracle.NewP256Signer(*ec, c, f)
			},
			func(c *oracle.VerifyConfig, f oracle.Fields) (*oracle.Verifier, error) {
				return oracle.NewP256Verifier(ec.PublicKey, c, f)
			},
		},
	}
}

// randomRequest returns a random request, as a client has it. Its host is in normal form, because
// the other library does not normalize it.
func randomRequest(t *testing.T, r *rand.Rand) *http.Request {
	t.Helper()
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	body := make([]byte, r.IntN(300))
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	address := "http://" + pick("bank.example", "bank.example:8080", "10.0.0.1", "[::1]:9000") +
		"/" + pick("", "pay", "pay/al%20ice", "a%2Fb", "a//b", "p%C3%A4y", "x;y=1") + pick("", "?", "?a=1&b=2", "?q=%20+x", "?a=b?c")
	req, err := http.NewRequestWithContext(t.Context(), pick("POST", "PUT", "PATCH", "GET", "DELETE"), address, bytes.NewReader(body))
	assert.NoError(t, err, "request to %s", address)
	if len(body) == 0 {
		req.Body, req.GetBody = http.NoBody, nil
	}
	if r.IntN(2) == 0 {
		req.Header.Set("Content-Type", pick("application/json", `multipart/form-data; boundary="a b"`, "text/plain"))
	}
	if r.IntN(2) == 0 {
		req.Header.Set("Idempotency-Key", pick(`"quoted, key"`, "7c5a9f3b2d1e4860"))
	}
	return req
}

// asServerReads returns req as its server reads it.
func asServerReads(t *testing.T, req *http.Request) *http.Request {
	t.Helper()
	var b bytes.Buffer
	assert.NoError(t, req.Write(&b), "write")
	got, err := http.ReadRequest(bufio.NewReader(&b))
	assert.NoError(t, err, "read")
	return got
}

var fresh = noncesOnce{}

type noncesOnce struct{}

func (noncesOnce) Claim(context.Context, string, string, time.Duration) error { return nil }

// TestSignaturesOfAnotherLibrary: each implementation verifies what the other has signed, for every
// algorithm and random messages. Neither accepts the signature of one message for another.
func TestSignaturesOfAnotherLibrary(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for name, both := range bothSides(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 9421))
			v := httpsig.New(&httpsig.Options{Keys: httpsig.Keyring{"k": {both.ours}}, Nonces: fresh})
			var before http.Header
			for n := range 200 {
				where := fmt.Sprintf("seed %d, message %d", seed, n)
				req := randomRequest(t, r)
				assert.NoError(t, (&httpsig.Signer{KeyID: "k", Key: both.ours}).Sign(req), "%s: ours", where)
				got := asServerReads(t, req)
				theirs, err := both.verifier(oracle.NewVerifyConfig().SetKeyID("k").SetAllowedTags([]string{"retrysafe"}), oracle.Headers("@method", "@authority", "@path", "@query"))
				assert.NoError(t, err, "%s: verifier", where)
				assert.NoError(t, oracle.VerifyRequest("retrysafe", *theirs, got), "%s: our signature of %s %s", where, req.Method, req.URL)

				req = randomRequest(t, r)
				fields := coveredComponents(t, req)
				signer, err := both.signer(oracle.NewSignConfig().SignAlg(n%2 == 0).SetKeyID("k").SetTag("retrysafe").
					SetExpires(time.Now().Add(time.Minute).Unix()).SetNonce(fmt.Sprintf("nonce-%032d", n)), fields)
				assert.NoError(t, err, "%s: signer", where)
				input, value, err := oracle.SignRequest("sig1", *signer, req)
				assert.NoError(t, err, "%s: theirs", where)
				req.Header.Set("Signature-Input", input)
				req.Header.Set("Signature", value)
				got = asServerReads(t, req)
				_, err = v.Accept(got)
				assert.NoError(t, err, "%s: their signature of %s %s", where, req.Method, req.URL)
				if before != nil {
					swapped := asServerReads(t, withBodyUnread(t, req))
					swapped.Header["Signature"] = before["Signature"]
					_, err = v.Accept(swapped)
					assert.True(t, err != nil, "%s: the signature of another message", where)
				}
				before = req.Header
			}
		})
	}
}

// withBodyUnread returns req with its body unread.
func withBodyUnread(t *testing.T, req *http.Request) *http.Request {
	t.Helper()
	if req.GetBody != nil {
		body, err := req.GetBody()
		assert.NoError(t, err, "body")
		req.Body = body
	}
	return req
}

// coveredComponents sets the digest, and returns what a signature of the other library must cover.
func coveredComponents(t *testing.T, req *http.Request) oracle.Fields {
	t.Helper()
	names := []string{"@method", "@authority", "@path", "@query"}
	if req.Body != http.NoBody {
		body, err := io.ReadAll(req.Body)
		assert.NoError(t, err, "body")
		copied := io.NopCloser(bytes.NewReader(body))
		digest, err := oracle.GenerateContentDigestHeader(&copied, []string{oracle.DigestSha256, oracle.DigestSha512})
		assert.NoError(t, err, "digest")
		req.Header.Set("Content-Digest", digest)
		withBodyUnread(t, req)
	}
	for _, name := range []string{"Content-Digest", "Content-Type", "Idempotency-Key"} {
		if req.Header.Get(name) != "" {
			names = append(names, strings.ToLower(name))
		}
	}
	return oracle.Headers(names...)
}
