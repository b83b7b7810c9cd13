package bearer

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const issuerName = "https://login.example"

// issuer issues tokens and serves its keys.
type issuer struct {
	*httptest.Server
	keys        string // the address of its keys
	asked, down atomic.Int64
	mu          sync.Mutex
	set         jose.JSONWebKeySet
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := new(issuer)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		if i.down.Load() > 0 {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(i.set)
	}))
	t.Cleanup(i.Close)
	// The process remembers keys by their address, and another test may have had this port.
	i.keys = i.URL + "/" + rand.Text()
	return i
}

// add adds a public key.
func (i *issuer) add(id string, public any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.set.Keys = append(i.set.Keys, jose.JSONWebKey{Key: public, KeyID: id, Use: "sig"})
}

// edKeys generates a key pair.
func edKeys(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	assert.NoError(t, err, "key")
	return public, private
}

func signed(t *testing.T, alg jose.SignatureAlgorithm, id string, key any, claims map[string]any) string {
	t.Helper()
	o := new(jose.SignerOptions)
	if id != "" {
		o = o.WithHeader("kid", id)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	assert.NoError(t, err, "signer")
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	assert.NoError(t, err, "token")
	return text
}

// claims returns the claims of a valid token, changed by pairs; nil removes a claim.
func claims(pairs ...any) map[string]any {
	c := map[string]any{"iss": issuerName, "sub": "ann", "aud": []string{"shop", "other"}, "exp": time.Now().Add(time.Hour).Unix()}
	for i := 0; i < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		if c[name] = pairs[i+1]; pairs[i+1] == nil {
			delete(c, name)
		}
	}
	return c
}

func bearer(lines ...string) *http.Request {
	r := httptest.NewRequest("POST", "/orders", nil)
	r.Header["Authorization"] = lines
	return r
}

// told returns the status of the answer to a request without a valid token.
func told(err error) int {
	if p := (*httpidem.Problem)(nil); errors.As(err, &p) {
		return p.Status
	}
	return 0
}

func TestJWT(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	public, private := edKeys(t)
	i.add("k1", public)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	assert.NoError(t, err, "RSA")
	i.add("k2", &rsaKey.PublicKey)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err, "ECDSA")
	i.add("k3", &ecKey.PublicKey)
	who, err := New(Options{JWKS: i.keys, Issuer: issuerName, Audience: "shop"})
	assert.NoError(t, err, "tenant")

	good := signed(t, jose.EdDSA, "k1", private, claims())
	ann, err := who(bearer("Bearer " + good))
	assert.NoError(t, err, "a good token")
	assert.True(t, strings.HasPrefix(ann, "jwt:") && !strings.Contains(ann, "ann"), "the tenant is %q", ann)
	name, err := httpidem.ParseCallerName("jwt:" + issuerName + "|ann")
	assert.NoError(t, err, "the name of the caller")
	assert.True(t, slices.Contains(name.Tenants(retrysafe.New(memstore.New(nil), nil)), ann), "a person finds the records of a verified caller by its name")
	for name, text := range map[string]string{
		"refreshed": signed(t, jose.EdDSA, "k1", private, claims("iat", 5, "exp", time.Now().Add(2*time.Hour).Unix())),
		"RSA":       signed(t, jose.RS256, "k2", rsaKey, claims()), "PSS": signed(t, jose.PS256, "k2", rsaKey, claims()),
		"ECDSA": signed(t, jose.ES256, "k3", ecKey, claims()), "one audience": signed(t, jose.EdDSA, "k1", private, claims("aud", "shop")),
		"just expired": signed(t, jose.EdDSA, "k1", private, claims("exp", time.Now().Add(-10*time.Second).Unix())),
	} {
		got, err := who(bearer("bearer  " + text))
		assert.NoError(t, err, "%s", name)
		assert.Equal(t, got, ann, "%s: the same caller", name)
	}
	for name, text := range map[string]string{
		"another": signed(t, jose.EdDSA, "k1", private, claims("sub", "bob")), "a number": signed(t, jose.EdDSA, "k1", private, claims("sub", 7)),
		"a digit": signed(t, jose.EdDSA, "k1", private, claims("sub", "7")),
	} {
		got, err := who(bearer("Bearer " + text))
		assert.NoError(t, err, "%s", name)
		assert.True(t, got != ann, "%s is another caller", name)
	}
	_, other := edKeys(t)
	head, rest, _ := strings.Cut(good, ".")
	payload, _, _ := strings.Cut(rest, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + payload + "."
	der, err := json.Marshal(jose.JSONWebKey{Key: &rsaKey.PublicKey})
	assert.NoError(t, err, "key")
	confused := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"k2"}`)) + "." + payload
	mac := hmac.New(sha256.New, der)
	mac.Write([]byte(confused))
	confused += "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	for name, lines := range map[string][]string{
		"none": nil, "empty": {""}, "basic": {"Basic YTpi"}, "two": {"Bearer " + good, "Bearer " + good}, "no token": {"Bearer x.y.z"},
		"another key":     {"Bearer " + signed(t, jose.EdDSA, "k1", other, claims())},
		"unknown key":     {"Bearer " + signed(t, jose.EdDSA, "k9", private, claims())},
		"key of another":  {"Bearer " + signed(t, jose.EdDSA, "k2", private, claims())},
		"no key id":       {"Bearer " + signed(t, jose.EdDSA, "", private, claims())},
		"not signed":      {"Bearer " + unsigned},
		"a public secret": {"Bearer " + confused},
		"cut":             {"Bearer " + good[:len(good)-4]},
		"other payload":   {"Bearer " + head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://login.example","sub":"bob"}`)) + good[strings.LastIndex(good, "."):]},
		"issuer":          {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("iss", "https://evil.example"))},
		"audience":        {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("aud", "elsewhere"))},
		"no audience":     {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("aud", nil))},
		"expired":         {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("exp", time.Now().Add(-time.Minute).Unix()))},
		"not yet":         {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("nbf", time.Now().Add(time.Minute).Unix()))},
		"for ever":        {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("exp", nil))},
		"nobody":          {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("sub", nil))},
		"a list":          {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("sub", []string{"ann"}))},
		"too long":        {"Bearer " + signed(t, jose.EdDSA, "k1", private, claims("x", strings.Repeat("x", mostToken)))},
	} {
		got, err := who(bearer(lines...))
		assert.Equal(t, told(err), http.StatusUnauthorized, "%s: %q, %v", name, got, err)
	}
}

// TestJWTKeys tests keys that are added and removed, and that an issuer that does not answer, and
// tokens with unknown keys, cost only a few fetches.
func TestJWTKeys(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.down.Store(1)
	public, private := edKeys(t)
	i.add("old", public)
	keys, err := newKeySet(i.keys)
	assert.NoError(t, err, "keys")
	now := time.Now()
	keys.now = func() time.Time { return now }
	who := &verifier{options: Options{Issuer: issuerName}, keys: keys}
	ask := func(id string, key any, more ...any) int {
		_, err := who.nameCaller(bearer("Bearer " + signed(t, jose.EdDSA, id, key, claims(append([]any{"exp", now.Add(time.Hour).Unix()}, more...)...))))
		return told(err)
	}
	for range 3 {
		assert.Equal(t, ask("old", private), http.StatusServiceUnavailable, "before the issuer has answered")
	}
	assert.Equal(t, i.asked.Load(), int64(1), "questions")
	i.down.Store(0)
	now = now.Add(keysPause)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { assert.Equal(t, ask("old", private), 0, "many at once") })
	}
	all.Wait()
	assert.Equal(t, i.asked.Load(), int64(2), "questions")

	newPublic, newPrivate := edKeys(t)
	i.add("new", newPublic)
	now = now.Add(keysPause)
	assert.Equal(t, ask("new", newPrivate), 0, "a key that is new")
	for range 10 {
		assert.Equal(t, ask("forged", newPrivate), http.StatusUnauthorized, "a key that nobody has")
	}
	assert.Equal(t, i.asked.Load(), int64(3), "questions: one for the new key, none for what is forged within the pause")
	now = now.Add(keysPause)
	assert.Equal(t, ask("forged", newPrivate), http.StatusUnauthorized, "a key that nobody has")
	assert.Equal(t, i.asked.Load(), int64(4), "questions")

	i.down.Store(1)
	now = now.Add(keysUsable - time.Minute)
	assert.Equal(t, ask("old", private), 0, "keys are good for a day while the issuer is away")
	for keysAsking(keys) { // it fetches in the background
	}
	now = now.Add(2 * time.Minute)
	assert.Equal(t, ask("old", private), http.StatusServiceUnavailable, "and no longer")
}

func keysAsking(s *keySet) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshing != nil
}

func TestJWTConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o600), "file")
		return path
	}
	public, private := edKeys(t)
	encode := func(keys ...jose.JSONWebKey) string {
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		assert.NoError(t, err, "set")
		return string(text)
	}
	good := file("good", encode(jose.JSONWebKey{Key: public, KeyID: "a"}))
	mixed := file("mixed", `{"keys":[{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"},`+strings.TrimPrefix(encode(jose.JSONWebKey{Key: public, KeyID: "a"}), `{"keys":[`))
	_, err := New(Options{JWKS: mixed, Issuer: issuerName})
	assert.NoError(t, err, "a key of an unknown kind beside a good one")
	who, err := New(Options{JWKS: good, Issuer: issuerName, Claim: "email"})
	assert.NoError(t, err, "a file")
	name, err := who(bearer("Bearer " + signed(t, jose.EdDSA, "", private, claims("email", "a@b"))))
	assert.True(t, err == nil && name != "", "the only key needs no id: %v", err)
	for want, c := range map[string]Options{
		"needs jwks and issuer":  {JWKS: good},
		"no such file":           {JWKS: filepath.Join(dir, "none"), Issuer: "x"},
		"no set of keys":         {JWKS: file("text", "keys"), Issuer: "x"},
		"no public key":          {JWKS: file("empty", `{"keys":[]}`), Issuer: "x"},
		"secret or private key":  {JWKS: file("private", encode(jose.JSONWebKey{Key: private, KeyID: "a"})), Issuer: "x"},
		"secret or private":      {JWKS: file("secret", encode(jose.JSONWebKey{Key: []byte("0123456789abcdef"), KeyID: "a"})), Issuer: "x"},
		"has to be https":        {JWKS: "http://login.example/keys", Issuer: "x"},
		"neither a file nor":     {JWKS: "https://user:password@login.example/keys", Issuer: "x"},
		"no public key that":     {JWKS: file("bad", `{"keys":[{"kty":"EC"},{"kty":"AKP","alg":"ML-DSA-44"},7]}`), Issuer: "x"},
		"it has no list of keys": {JWKS: file("other", `{"keys":7}`), Issuer: "x"},
		"has to be https, or":    {JWKS: "http://127.evil.example/keys", Issuer: "x"},
		"no public key that sig": {JWKS: file("enc", encode(jose.JSONWebKey{Key: public, Use: "enc"})), Issuer: "x"},
	} {
		_, err := New(c)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
		assert.True(t, err == nil || !strings.Contains(err.Error(), "password"), "the error shows a password")
	}
}

// FuzzJWT checks that nothing that was not signed names a caller.
func FuzzJWT(f *testing.F) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("e30.e30.AA")
	f.Add(`{"payload":"e30","signatures":[]}`)
	f.Add("eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbm4ifQ.")
	who := &verifier{options: Options{Issuer: issuerName}, keys: &keySet{keys: []jose.JSONWebKey{{Key: public}}, now: time.Now}}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := who.nameCaller(bearer("Bearer " + text))
		assert.True(t, err != nil && got == "", "taken: %q", text)
	})
}
