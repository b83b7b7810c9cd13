package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestForgetWhatChanges: a record that an operator lets run again between the look at it and the
// removal stays as it is, and is reported. An error of the store ends the command.
func TestForgetWhatChanges(t *testing.T) {
	t.Parallel()
	inner := memstore.New(nil)
	e := retrysafe.New(inner, &retrysafe.Options{Namespace: "app", Sweep: -1}).Layer("gw")
	key := retrysafe.Key{Tenant: "ann", Operation: "POST /payments", ID: "order-1"}
	change := func(string, int) storetest.Fault { return 0 }
	s := storetest.NewFaulty(inner, func(op string, n int) storetest.Fault {
		if op == "forgetanswer" {
			return change(op, n)
		}
		return 0
	})
	d, err := admin.NewRecords(s, nil)
	assert.NoError(t, err, "records")
	a, _, err := e.Begin(t.Context(), key, retrysafe.WithFingerprint([]byte("\x01print")))
	assert.NoError(t, err, "begin")
	_ = a.Fail(t.Context(), &retrysafe.Failure{Code: "declined", Message: "the card of ann"})
	before, err := e.Lookup(t.Context(), key)
	assert.NoError(t, err, "the failed record")
	assert.Equal(t, before.State, retrysafe.StateFailed, "state")

	f := &keysFlags{namespace: "app", tenant: "ann"}
	forget := func() (*forgetting, string, error) {
		var out strings.Builder
		c := &cobra.Command{}
		c.SetContext(t.Context())
		c.SetOut(&out)
		c.SetErr(&out)
		g := &forgetting{c: c, d: d, tenants: make(map[string]bool)}
		sel := admin.Selection{ListRequest: storeapi.ListRequest{Namespace: "app", Tenant: "ann"}}
		err := g.seeAll(f, &sel)
		return g, out.String(), err
	}
	change = func(string, int) storetest.Fault { return storetest.LoseReply }
	_, _, err = forget()
	assert.True(t, err != nil && strings.Contains(err.Error(), "repeat the command"), "a reply that is lost: %v", err)
	now, err := e.Lookup(t.Context(), key)
	assert.True(t, err == nil && now.State == retrysafe.StateFailed && now.Answer.Body == nil && now.Fingerprint == nil, "it was removed: %+v, %v", now, err)
	g, said, err := forget()
	assert.True(t, err == nil && g.before == 1, "forgotten before: %s, %v", said, err)

	a, _, err = e.Begin(t.Context(), retrysafe.Key{Tenant: "ann", Operation: "POST /payments", ID: "order-2"})
	assert.NoError(t, err, "begin")
	_ = a.Fail(t.Context(), &retrysafe.Failure{Code: "declined", Message: "the card of ann"})
	change = func(string, int) storetest.Fault {
		key := retrysafe.Key{Tenant: "ann", Operation: "POST /payments", ID: "order-2"}
		rec, err := e.Lookup(t.Context(), key)
		assert.NoError(t, err, "the record")
		assert.NoError(t, e.Resolve(t.Context(), key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone}), "resolve")
		again, _, err := e.Begin(t.Context(), key)
		assert.NoError(t, errors.Join(err, again.Complete(t.Context(), retrysafe.Answer{Codec: "json", Body: []byte("2"), Kept: true})), "the next attempt")
		return 0
	}
	g, said, err = forget()
	assert.True(t, err == nil && g.left == 1 && g.forgotten == 0 && g.before == 1, "what has changed meanwhile: %s, %v", said, err)
	assert.Contains(t, said, "has changed meanwhile; repeat the command", "what is said")
	now, err = e.Lookup(t.Context(), retrysafe.Key{Tenant: "ann", Operation: "POST /payments", ID: "order-2"})
	assert.True(t, err == nil && string(now.Answer.Body) == "2", "the new answer stays: %+v, %v", now, err)
	change = func(string, int) storetest.Fault { return 0 }
	g, said, err = forget()
	assert.True(t, err == nil && g.forgotten == 1 && g.left == 0, "again: %s, %v", said, err)
}

// TestMoments: a time is a date, a time of this machine, one with a zone, or so long ago.
func TestMoments(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"": {}, "90m": now.Add(-90 * time.Minute), "2026-11-27": time.Date(2026, 11, 27, 0, 0, 0, 0, time.Local),
		"2026-11-27 14:30": time.Date(2026, 11, 27, 14, 30, 0, 0, time.Local), "2026-11-27T14:30:05Z": time.Date(2026, 11, 27, 14, 30, 5, 0, time.UTC),
	} {
		got, err := parseMoment(text, now)
		assert.True(t, err == nil && got.Equal(want), "%q: %v, %v", text, got, err)
	}
	for _, text := range []string{"-5m", "14:30", "yesterday", "2026-13-01"} {
		_, err := parseMoment(text, now)
		assert.True(t, err != nil, "%q is accepted", text)
	}
}

// listedStore is a store whose pages a test changes.
type listedStore struct {
	*memstore.Store
	change func(*storeapi.Page)
}

func (s *listedStore) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	page, err := s.Store.List(ctx, req)
	s.change(&page)
	return page, err
}

// TestForgetKeepsTheDataKey: the data key is destroyed only when no record of the caller needs it.
func TestForgetKeepsTheDataKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags keysFlags
		page  func(*storeapi.Page, func(id string))
		said  string
	}{
		"nothing is left":           {said: "is destroyed"},
		"an operation was selected": {flags: keysFlags{operation: "POST /payments"}, said: "were not selected may need it"},
		"a time was selected":       {flags: keysFlags{since: "1h"}, said: "were not selected may need it"},
		"a record is of a newer version": {
			page: func(page *storeapi.Page, _ func(string)) {
				page.Unreadable = append(page.Unreadable, storeapi.Unreadable{Err: errors.New("it is of a newer version")})
			}, said: "were left need it",
		},
		"a request comes meanwhile": {page: func(_ *storeapi.Page, pay func(string)) { pay("order-2") }, said: "has made requests meanwhile"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := sealstore.NewKeyFile("first")
			assert.NoError(t, err, "keys")
			ring, err := sealstore.ParseRing(text)
			assert.NoError(t, err, "ring")
			listed := &listedStore{Store: memstore.New(nil), change: func(*storeapi.Page) {}}
			s := sealstore.New(listed, ring, nil)
			e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Sweep: -1}).Layer("gw")
			pay := func(id string) {
				a, first, err := e.Begin(t.Context(), retrysafe.Key{Tenant: "ann", Operation: "POST /payments", ID: id})
				assert.NoError(t, err, "begin")
				if first == nil {
					assert.NoError(t, a.Complete(t.Context(), retrysafe.Answer{Codec: "json", Body: []byte("17"), Kept: true}), "complete")
				}
			}
			pay("order-1")
			if test.page != nil {
				listed.change = func(page *storeapi.Page) {
					listed.change = func(*storeapi.Page) {}
					test.page(page, pay)
				}
			}
			d, err := admin.NewRecords(s, nil)
			assert.NoError(t, err, "records")
			var out strings.Builder
			c := &cobra.Command{}
			c.SetContext(t.Context())
			c.SetOut(&out)
			c.SetErr(&out)
			f := &test.flags
			f.namespace, f.tenant = "app", "ann"
			g := &forgetting{c: c, d: d, tenants: make(map[string]bool)}
			sel := admin.Selection{ListRequest: storeapi.ListRequest{Namespace: "app", Tenant: "ann", Operation: f.operation}}
			assert.NoError(t, g.seeAll(f, &sel), "forget")
			assert.NoError(t, g.destroyKeys(s, f, &sel), "destroy the keys")
			assert.Contains(t, out.String(), test.said, "what is said")
			if name == "nothing is left" {
				return
			}
			pay("order-2")
			rec, err := e.Lookup(t.Context(), retrysafe.Key{Tenant: "ann", Operation: "POST /payments", ID: "order-2"})
			assert.True(t, err == nil && string(rec.Answer.Body) == "17", "the data key opens the next answer: %v, %v", rec.Answer, err)
		})
	}
}
