package retrysafe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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

// spelled has a text of its own, which encoding/json writes.
type spelled struct{ text string }

func (n spelled) MarshalText() ([]byte, error) { return []byte(n.text), nil }

// raw writes its own JSON.
type raw struct{ text string }

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r.text), nil }

// addressed has its method on the pointer alone.
type addressed struct{ Text string }

func (*addressed) MarshalText() ([]byte, error) { return []byte("fixed"), nil }

// TestPayloadTexts tests that no two payloads that differ in bytes that are no UTF-8 are one,
// wherever the text is, and that no other payload is refused.
func TestPayloadTexts(t *testing.T) {
	t.Parallel()
	type inner struct{ Text string }
	type quoted struct {
		Text string `json:",string"`
	}
	type left struct {
		inner
		Text any    `json:"text,omitempty"`
		Out  string `json:"-"`
	}
	e := engineOn(t, newStore(), retrysafe.Policy{})
	for i, broken := range []any{
		[]string{"a\xff"},
		map[string]string{"a\xff": "b"},
		quoted{"a\xff"}, // types that say all
		map[string]any{"name": "a\xff"},
		map[string]any{"a\xff": 1},
		[]any{map[string]any{"b": []any{1, "a\xff"}}},
		map[string]any{"name": &inner{"a\xff"}},
		map[string]any{"name": spelled{"a\xff"}},
		map[spelled]int{{"a\xff"}: 1},
		left{inner: inner{"a\xff"}},
		&left{Text: "a\xff"},
		[]any{raw{`"\ufffd"`}, "a\xff"},
		[]any{addressed{"a\xff"}},
	} {
		_, err := retrysafe.Do(ctx, e, retrysafe.Key{Operation: "charge", ID: fmt.Sprint("broken ", i)}, fails, retrysafe.WithPayload(broken))
		assert.Contains(t, fmt.Sprint(err), "a text of the payload is no UTF-8", "payload %d: %#v", i, broken)
	}
	for i, valid := range []any{
		"a\xff", []byte("a\xff"),
		map[string]any{"name": "a\ufffd", `\ufffd`: `\ufffd`},
		quoted{`\ufffd`},
		[]any{raw{`"\ufffd"`}, raw{`{"a\\":"\\\ufffd"}`}},
		[]any{raw{`"\ufffd"`}, left{Out: "a\xff"}, []byte("a\xff"), nil, (*spelled)(nil), spelled{"b"}, &addressed{"a\xff"}, map[int]any{1: nil}},
	} {
		_, err := retrysafe.Do(ctx, e, retrysafe.Key{Operation: "charge", ID: fmt.Sprint("valid ", i)}, new(counter).work, retrysafe.WithPayload(valid))
		assert.NoError(t, err, "payload %d: %#v", i, valid)
	}
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
	ruled := retrysafe.Key{Operation: "charge", ID: "ruled"}
	_, _, err = e.Begin(ctx, ruled, retrysafe.WithRuleFingerprint(3, []byte{0xCD}))
	assert.NoError(t, err, "call with a rule")
	given := retrysafe.Key{Operation: "charge", ID: "bytes"}
	_, _, err = e.Begin(ctx, given, retrysafe.WithPayload("some bytes"))
	assert.NoError(t, err, "call with bytes")
	got := fmt.Sprintf("key text: %s\npayload fingerprint: %x\ngiven fingerprint: %x\nanswer: %s %s\nfailure: %s %s\ntraced answer: %s\n",
		key, rec.Fingerprint, refused.Fingerprint, rec.Answer.Codec, rec.Answer.Body, refused.Answer.Codec, refused.Answer.Body, tracedCodec(t))
	got += fmt.Sprintf("fingerprint of rule 3: %x\nfingerprint of bytes: %x\n%s", lookup(t, e, ruled).Fingerprint, lookup(t, e, given).Fingerprint, derived(t))
	assert.Golden(t, "testdata/formats_v1.golden", got)

	// What is stored so is also read.
	answer, err := retrysafe.Do(ctx, e, charge, fails, retrysafe.WithPayload(map[string]any{"b": 1, "a": []int{2}}))
	assert.True(t, err == nil && answer.Value == "receipt", "a replayed answer: %q, %v", answer.Value, err)
	_, err = retrysafe.Do(ctx, e, failed, fails, retrysafe.WithFingerprint([]byte{0xAB}))
	f, ok := errors.AsType[*retrysafe.Failure](err)
	assert.True(t, ok && f.Code == "declined" && f.Message == "no" && string(f.Detail) == "\x01", "a replayed failure: %v", err)
}

// fails is work that must not run.
func fails(context.Context) (string, error) { return "", errors.New("it has run again") }

// derived returns the keys that an attempt makes for the calls of its work.
func derived(t *testing.T) string {
	t.Helper()
	born := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	e := retrysafe.New(memstore.New(&memstore.Options{Now: func() time.Time { return born }}), &retrysafe.Options{Sweep: -1})
	a, _, err := e.Begin(ctx, retrysafe.Key{Tenant: "ann", Operation: "charge é", ID: "k/1"})
	assert.NoError(t, err, "begin")
	return fmt.Sprintf("derived key: %s\n", a.KeyFor("card"))
}

// tracedCodec returns the codec that is stored with the answer of a call that has a trace.
func tracedCodec(t *testing.T) string {
	t.Helper()
	s := newStore()
	e := engineWith(t, s, &retrysafe.Options{Sweep: -1, Trace: &retrysafe.Trace{
		Origin: func(context.Context) string { return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
	}})
	_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
	assert.NoError(t, err, "call with a trace")
	rec, err := s.Lookup(ctx, storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: charge})
	assert.NoError(t, err, "look")
	return rec.Answer.Codec
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
