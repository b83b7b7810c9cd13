package token_test

import (
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestForgeries: only the text that was issued is valid, for its tenant and its namespace.
func TestForgeries(t *testing.T) {
	t.Parallel()
	s, o := newStore(), &token.Options{Rate: -1, StatelessSecret: secret}
	i, c := token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), o), new(till)
	text := issueToken(t, i, "ann")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	assert.NoError(t, err, "text")
	for n := range len(raw) * 8 {
		forged := append([]byte(nil), raw...)
		forged[n/8] ^= 1 << (n % 8)
		assert.Equal(t, c.pay(t, i, "ann", base64.RawURLEncoding.EncodeToString(forged)), "refused", "bit %d", n)
	}
	for name, other := range map[string]string{
		"a line end inside": text[:40] + "\n" + text[40:], "a line end in place": text[:40] + "\n" + text[41:], "padding": text + "=",
		"the other alphabet": base64.RawStdEncoding.EncodeToString(raw) + ".", "cut": text[:75], "grown": text + "A", "twice": text + text, "blank": " ",
	} {
		assert.Equal(t, c.pay(t, i, "ann", other), "refused", "%s", name)
	}
	apart := retrysafe.New(s, &retrysafe.Options{Namespace: "other", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	assert.Equal(t, c.pay(t, token.NewIssuer(apart, o), "ann", text), "refused", "another namespace")
	assert.Equal(t, c.pay(t, i, "an", text), "refused", "another tenant")
	assert.Equal(t, c.pay(t, i, "ann", text), "ran", "the token itself")
}

// TestRestart: with the same secret nothing is forgotten, whichever process is asked. With another
// secret, tokens that were used are still answered.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := newStore(), new(till)
		process := func(secret []byte) *token.Issuer {
			return token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), &token.Options{StatelessSecret: secret})
		}
		before := process(secret)
		used, open, late := issueToken(t, before, "ann"), issueToken(t, before, "ann"), issueToken(t, before, "ann")
		assert.Equal(t, c.pay(t, before, "ann", used), "ran", "the first use")
		page, err := s.List(ctx, storeapi.ListRequest{})
		assert.NoError(t, err, "list")
		assert.Equal(t, len(page.Records), 1, "records: what was not used is not stored")
		after, changed := process(secret), process([]byte(strings.Repeat("another secret", 3)))
		assert.Equal(t, c.pay(t, after, "ann", used), "replayed", "a repeat")
		assert.Equal(t, c.pay(t, changed, "ann", used), "replayed", "a repeat under another secret")
		assert.Equal(t, c.pay(t, changed, "ann", open), "refused", "a first use under another secret")
		assert.Equal(t, c.pay(t, after, "ann", open), "ran", "a first use")
		stored := token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), nil)
		assert.Equal(t, c.pay(t, stored, "ann", used), "replayed", "a repeat where tokens are stored now")
		assert.Equal(t, c.pay(t, stored, "ann", late), "refused", "a first use where tokens are stored now")
		time.Sleep(5*time.Minute + time.Second)
		assert.Equal(t, c.pay(t, process(secret), "ann", late), "refused", "a first use after its time, in a new process")
		assert.Equal(t, c.pay(t, process(secret), "ann", used), "replayed", "a repeat after its time, in a new process")
	})
}

// TestFormat: tokens of version 1 stay readable; the format is frozen.
func TestFormat(t *testing.T) {
	t.Parallel()
	const text = "AQABAgMEBQYHCAkKCwwNDg8AGck4YPhAAAJgf_ePGmZGDL0_En2ROMc0I4oJKgL6eksvNVGS39JD"
	i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{StatelessSecret: secret})
	assert.Equal(t, i.SignedUntil("änn", text).UTC(), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), "the end of its first use")
}

// FuzzToken: whatever is sent as a token, only an issued one runs.
func FuzzToken(f *testing.F) {
	e := retrysafe.New(newStore(), &retrysafe.Options{Sweep: -1})
	own := []byte(rand.Text() + rand.Text()) // each process of the fuzzer has its own
	i := token.NewIssuer(e, &token.Options{Rate: -1, StatelessSecret: own})
	good, err := i.Issue(ctx, "ann")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("ann", good)
	f.Add("bob", good)
	f.Add("ann", "")
	f.Add("ann", strings.ToLower(good))
	f.Add("ann", good[:70]+"\r\n"+good[72:])
	f.Fuzz(func(t *testing.T, tenant, text string) {
		if until := i.SignedUntil(tenant, text); until.IsZero() == (tenant == "ann" && text == good) {
			t.Fatalf("tenant %q, text %q: until %v", tenant, text, until)
		}
	})
}
