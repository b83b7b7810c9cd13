package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
)

// TestEntryNames: a name and a reason are texts that a person can read, in any language. An action
// that a person decides on has a reason.
func TestEntryNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		who, reason         string
		validate, explained error
	}{
		{"ann", "found it at the bank", nil, nil},
		{"علی\u200cرضا", "退款", nil, nil},
		{"ann", "", nil, admin.ErrNoReason},
		{"ann", " \u3000", admin.ErrReason, admin.ErrNoReason},
		{"ann", "  ", nil, admin.ErrNoReason},
		{"", "x", admin.ErrName, admin.ErrName},
		{"a\nb", "x", admin.ErrName, admin.ErrName},
		{strings.Repeat("a", 201), "x", admin.ErrName, admin.ErrName},
		{"ann", "a\u202eb", admin.ErrReason, admin.ErrReason},
		{"ann", strings.Repeat("a", 1001), admin.ErrReason, admin.ErrReason},
	} {
		e := admin.Entry{Who: c.who, Reason: c.reason}
		assert.ErrorIs(t, e.Validate(), c.validate, "Validate of %q, %q", c.who, c.reason)
		assert.ErrorIs(t, e.RequireReason(), c.explained, "RequireReason of %q, %q", c.who, c.reason)
	}
}

// TestBegun: an action has two entries. The second one has what was done, even though the caller
// has gone, and codes of errors without their texts.
func TestBegun(t *testing.T) {
	t.Parallel()
	audit := admin.NewAudit(memstore.New(nil), "shop", 0)
	_, err := audit.Begin(t.Context(), admin.Entry{Who: "a\nb", Action: "resume"})
	assert.ErrorIs(t, err, admin.ErrName, "a bad name")
	ctx, cancel := context.WithCancel(t.Context())
	begun, err := audit.Begin(ctx, admin.Entry{Who: "ann", Action: "redrive", Object: "dead letters q", Detail: "all"})
	assert.NoError(t, err, "begin")
	cancel()
	failed := errors.Join(errors.New("a secret"), mqidem.ErrMayBeDone)
	assert.ErrorIs(t, begun.End(ctx, "1 done, 0 gone, 2 left", failed), mqidem.ErrMayBeDone, "end")
	entries := auditEntries(t, audit)
	for i := range entries {
		entries[i].At = time.Time{}
	}
	e := admin.Entry{Number: 1, Who: "ann", Action: "redrive", Object: "dead letters q", Detail: "all", Result: "begun"}
	end := e
	end.Number, end.Of, end.Detail, end.Result = 2, 1, "1 done, 0 gone, 2 left", "error: in-doubt"
	assert.Equal(t, entries, []admin.Entry{end, e}, "entries")
}

// TestAuditOfLetters: the log says what was selected, also that a person knows that nothing was
// done, and how many messages it was.
func TestAuditOfLetters(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.withMessages(t)
	letter := get[[]admin.DeadLetter](t, p, "vera", "/deadletters/orders")[0].Hash
	status, text := p.ask(t, "rita", "POST", "/deadletters/orders/redrive", `{"letters":["`+letter+`","0000000000000000"],"not_done":true,"reason":"x"}`, nil)
	assert.Equal(t, status, 200, "redrive: %s", text)
	status, text = p.ask(t, "rita", "POST", "/outboxes/shop/discard", `{"places":[10],"reason":"x"}`, nil)
	assert.Equal(t, status, 200, "discard: %s", text)
	var details []string
	for _, e := range auditLog(t, p, "/audit").Entries {
		details = append(details, e.Detail)
	}
	assert.Equal(t, details, []string{"1 done, 0 gone, 0 left", "1 messages: 10", "1 done, 0 gone, 1 left", letter + " 0000000000000000, not-done"}, "details")
}

// TestAuditBesideSealing: an entry that a process without sealing has written, one whose key is not
// here, and one that is damaged are shown as such among the others.
func TestAuditBesideSealing(t *testing.T) {
	t.Parallel()
	p := open(t)
	inner := memstore.New(nil)
	ring := ringOf(t, "a")
	sealed := sealstore.New(inner, ring, &sealstore.Options{OnlySealed: true})
	for _, audit := range []*admin.Audit{admin.NewAudit(inner, "shop", 0), admin.NewAudit(sealed, "shop", 0)} {
		_, err := audit.Write(t.Context(), admin.Entry{Who: "ann", Action: "resolve", Object: "0123456789abcdef", Reason: "clear-text"})
		assert.NoError(t, err, "write")
	}
	unreadable := func() (why []string) {
		t.Helper()
		p.serve(t)
		for _, e := range auditLog(t, p, "/audit").Entries {
			assert.True(t, e.Number > 0 && time.Since(e.At) < time.Hour && (e.Who == "ann") == (e.Unreadable == ""), "entry %+v", e)
			why = append(why, e.Unreadable)
		}
		return why
	}
	p.options.Audit = admin.NewAudit(sealed, "shop", 0)
	assert.Equal(t, unreadable(), []string{"", "not-sealed"}, "where only sealed answers are read")
	p.options.Audit = admin.NewAudit(sealstore.New(inner, ring, nil), "shop", 0)
	assert.Equal(t, unreadable(), []string{"", ""}, "where both are read")
	p.options.Audit = admin.NewAudit(inner, "shop", 0)
	assert.Equal(t, unreadable(), []string{"sealed", ""}, "without keys")
	p.options.Audit = admin.NewAudit(sealstore.New(inner, ringOf(t, "b"), nil), "shop", 0)
	assert.Equal(t, unreadable(), []string{"sealed", ""}, "with other keys")
	text, err := json.Marshal(admin.Entry{Unreadable: "sealed"})
	assert.NoError(t, err, "marshal")
	assert.True(t, bytes.Contains(text, []byte(`"unreadable":"sealed"`)), "the member: %s", text)
}

func ringOf(t *testing.T, id string) *sealstore.Ring {
	t.Helper()
	text, err := sealstore.NewKeyFile(id)
	assert.NoError(t, err, "key file")
	ring, err := sealstore.ParseRing(text)
	assert.NoError(t, err, "ring")
	return ring
}

// TestChoiceBefore: nothing is done with a letter before Before has returned, and its error ends
// the walk.
func TestChoiceBefore(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.withMessages(t)
	again := *p.queue.letters[0]
	again.Message = &mqidem.Message{ID: "letter-id-2", Source: "orders"}
	p.queue.letters = append(p.queue.letters, &again)
	stop := errors.New("stop")
	var seen []string
	choice := &admin.Choice{All: true, Before: func(_ context.Context, m *mqidem.DeadLetter) error {
		seen = append(seen, m.Message.ID)
		if len(seen) == 2 {
			return stop
		}
		return nil
	}}
	out, err := p.options.DeadLetters["orders"].Discard(t.Context(), choice)
	assert.ErrorIs(t, err, stop, "error")
	assert.Equal(t, out.Done, 1, "done")
	assert.Equal(t, seen, []string{"letter-id-1", "letter-id-2"}, "seen")
	assert.True(t, len(p.queue.letters) == 1 && p.queue.letters[0].Message.ID == "letter-id-2", "left: %d", len(p.queue.letters))
}
