package retrysafe_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

func TestKeyText(t *testing.T) {
	t.Parallel()
	digest := retrysafe.KeyPart(strings.Repeat("x", 513))
	for _, tt := range []struct {
		key  storeapi.StoreKey
		text string
	}{
		{storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: charge}, "app/fn/ann/charge/k-1"},
		{storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: retrysafe.Key{Operation: "o", ID: "i"}}, "app/fn//o/i"},
		{storeapi.StoreKey{Namespace: "a/b", Layer: "gw", Key: retrysafe.Key{Tenant: "é", Operation: "POST /x y", ID: "~a~%\x00"}}, "a%2Fb/gw/%C3%A9/POST%20%2Fx%20y/%7Ea~%25%00"},
		{storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: retrysafe.Key{Operation: "o", ID: digest}}, "app/fn//o/" + digest},
		{storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: retrysafe.Key{Operation: "o", ID: "~sha256.short"}}, "app/fn//o/%7Esha256.short"},
	} {
		text, err := tt.key.MarshalText()
		assert.NoError(t, err, "marshal %s", tt.text)
		assert.Equal(t, string(text), tt.text, "text")
		var back storeapi.StoreKey
		assert.NoError(t, back.UnmarshalText(text), "unmarshal %s", tt.text)
		assert.Equal(t, back, tt.key, "key")
	}
}

func TestKeyPart(t *testing.T) {
	t.Parallel()
	digest := retrysafe.KeyPart(strings.Repeat("x", 513))
	assert.Equal(t, digest, "~sha256.35ade0090e64e74d6ad04204009c23a4e34b82bdf0f4f317fbcc5f26f9b10241", "digest of 513 letters")
	assert.Equal(t, retrysafe.KeyPart("short"), "short", "a short part")
	assert.NotEqual(t, retrysafe.KeyPart(digest), digest, "nobody can name another's digest")
	assert.NotEqual(t, retrysafe.KeyPart(strings.Repeat("x", 514)), digest, "another long part")
}

func TestKeysAreNotShown(t *testing.T) {
	t.Parallel()
	secret := retrysafe.Key{Tenant: "tenant-secret", Operation: "charge", ID: "id-secret"}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", secret)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", secret)
	e := engineOn(t, newStore(), retrysafe.Policy{})
	_, _, err := e.Begin(ctx, secret)
	assert.NoError(t, err, "begin")
	_, _, err = e.Begin(ctx, secret)
	shown := log.String() + fmt.Sprintf("%v %+v %#v %s %q", secret, secret, secret, secret, secret) + err.Error() + fmt.Sprintf("%+v", err)
	assert.True(t, !strings.Contains(shown, "secret"), "what is shown: %s", shown)
	assert.Contains(t, err.Error(), e.KeyHash(secret), "the error names the key by its hash")
	assert.Contains(t, err.Error(), "retry with the same key later", "and says what to do")
	other := engineWith(t, newStore(), &retrysafe.Options{Secret: []byte("another secret!!")})
	assert.NotEqual(t, other.KeyHash(secret), e.KeyHash(secret), "the hash is keyed")
}

// TestFormats freezes version 1: a change here needs a new version.
func TestFormats(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	_, err := retrysafe.Do(ctx, e, charge, new(counter).work, retrysafe.WithPayload(map[string]any{"b": 1, "a": []int{2}}))
	assert.NoError(t, err, "call")
	rec := lookup(t, e, charge)
	key, err := rec.Key.MarshalText()
	assert.NoError(t, err, "key")
	failed := retrysafe.Key{Operation: "charge", ID: "failed"}
	_, _ = retrysafe.Do(ctx, e, failed, func(context.Context) (string, error) {
		return "", &retrysafe.Failure{Code: "declined", Message: "no", Detail: []byte{1}}
	}, retrysafe.WithFingerprint([]byte{0xAB}))
	refused := lookup(t, e, failed)
	got := fmt.Sprintf("key text: %s\npayload fingerprint: %x\ngiven fingerprint: %x\nanswer: %s %s\nfailure: %s %s\n",
		key, rec.Fingerprint, refused.Fingerprint, rec.Answer.Codec, rec.Answer.Body, refused.Answer.Codec, refused.Answer.Body)
	want, err := os.ReadFile("testdata/formats_v1.golden")
	assert.NoError(t, err, "golden file")
	assert.Equal(t, got, string(want), "formats")
}

func FuzzKeyText(f *testing.F) {
	for _, s := range []string{"app/fn/ann/charge/k-1", "a/b/c/d/e", "a%2Fb/gw//o/%7Ex", "a/b/c/d/" + retrysafe.KeyPart(strings.Repeat("x", 600)), "a/b//%41/e", "////"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var k storeapi.StoreKey
		if k.UnmarshalText(text) != nil {
			return
		}
		again, err := k.MarshalText()
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%q became %q (%v): one key has two texts", text, again, err)
		}
	})
}

// FuzzKeyParts: whatever the parts are, two different keys never have one text.
func FuzzKeyParts(f *testing.F) {
	f.Add("ann", "charge", "k", "ann", "charge/k", "")
	f.Add("~", "%", "/", "", "~sha256.", "\x00")
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g string) {
		one := storeapi.StoreKey{Namespace: "n", Layer: "l", Key: retrysafe.Key{Tenant: a, Operation: b, ID: c}}
		two := storeapi.StoreKey{Namespace: "n", Layer: "l", Key: retrysafe.Key{Tenant: d, Operation: e, ID: g}}
		x, errX := one.MarshalText()
		y, errY := two.MarshalText()
		if errX != nil || errY != nil {
			return
		}
		if (one == two) != bytes.Equal(x, y) {
			t.Fatalf("%#v and %#v have the texts %q and %q", one.ID, two.ID, x, y)
		}
	})
}
