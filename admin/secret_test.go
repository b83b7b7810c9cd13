package admin_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

const oneSecret, otherSecret = "the secret of the shop", "another secret of the shop"

func deskWith(t *testing.T, s storeapi.Store, secret string, log *slog.Logger) *admin.Records {
	t.Helper()
	d, err := admin.NewRecords(s, &admin.RecordsOptions{Secret: []byte(secret), Logger: log})
	assert.NoError(t, err, "desk")
	return d
}

func engineOf(t *testing.T, s storeapi.Store, secret string) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "shop", Secret: []byte(secret), Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// TestSecretOfNamespace: on every store, a desk compares its secret with the check value, never
// writes that by itself, and replaces it if it is asked to. A sealed store needs no master key for
// it.
func TestSecretOfNamespace(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(*testing.T) (service, command storeapi.Store){
		"memory": func(*testing.T) (storeapi.Store, storeapi.Store) { s := memstore.New(nil); return s, s },
		"copies": func(*testing.T) (storeapi.Store, storeapi.Store) {
			s := nearstore.New(memstore.New(nil), nil)
			return s, s
		},
		"shards": func(t *testing.T) (storeapi.Store, storeapi.Store) {
			t.Helper()
			s, err := shardstore.New(t.Context(), map[string]storeapi.Store{"a": memstore.New(nil), "b": memstore.New(nil), "c": memstore.New(nil)}, nil)
			assert.NoError(t, err, "shards")
			return s, s
		},
		"sealed": func(*testing.T) (storeapi.Store, storeapi.Store) {
			s := memstore.New(nil)
			o := &sealstore.Options{OnlySealed: true}
			return sealstore.New(s, sealstore.NewRing("a"), o), s
		},
		"sealed with another key": func(*testing.T) (storeapi.Store, storeapi.Store) {
			s := memstore.New(nil)
			o := &sealstore.Options{OnlySealed: true}
			return sealstore.New(s, sealstore.NewRing("a"), o), sealstore.New(s, sealstore.NewRing("b"), o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, command := made(t)
			d, other := deskWith(t, command, oneSecret, nil), deskWith(t, command, otherSecret, nil)
			for range 2 { // looking writes nothing
				known, err := d.CheckSecret(t.Context(), "shop")
				assert.True(t, !known && err == nil, "before the first check: %v, %v", known, err)
			}
			assert.NoError(t, engineOf(t, service, oneSecret).CheckSecret(t.Context()), "first check")
			known, err := d.CheckSecret(t.Context(), "shop")
			assert.True(t, known && err == nil, "the same secret: %v, %v", known, err)
			known, err = other.CheckSecret(t.Context(), "shop")
			assert.True(t, known && errors.Is(err, retrysafe.ErrSecretChanged), "another secret: %v, %v", known, err)
			known, err = other.CheckSecret(t.Context(), "bank")
			assert.True(t, !known && err == nil, "another namespace: %v, %v", known, err)

			for _, want := range []bool{true, false} {
				replaced, err := other.ReplaceSecret(t.Context(), "shop")
				assert.True(t, replaced == want && err == nil, "replace: %v, %v", replaced, err)
			}
			assert.NoError(t, engineOf(t, service, otherSecret).CheckSecret(t.Context()), "the new secret")
			assert.ErrorIs(t, engineOf(t, service, oneSecret).CheckSecret(t.Context()), retrysafe.ErrSecretChanged, "the old secret")
		})
	}
}

// TestReplaceSecretFaults: a replacement whose reply is lost is made, and one that was not made is
// an error.
func TestReplaceSecretFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault storetest.Fault
		to    int
		fails bool
	}{"a lost reply": {storetest.LoseReply, 1, false}, "lost requests": {storetest.LoseRequest, 3, false}, "away": {storetest.LoseRequest, 99, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New(nil)
			assert.NoError(t, engineOf(t, s, oneSecret).CheckSecret(t.Context()), "first check")
			faulty := storetest.NewFaulty(s, func(op string, call int) storetest.Fault {
				if op == "acquire" && call <= c.to {
					return c.fault
				}
				return 0
			})
			_, err := deskWith(t, faulty, otherSecret, nil).ReplaceSecret(t.Context(), "shop")
			assert.Equal(t, err != nil, c.fails, "replace failed")
			err = engineOf(t, s, otherSecret).CheckSecret(t.Context())
			assert.Equal(t, err != nil, c.fails, "the new secret is refused")
		})
	}
}

// TestOtherSecretIsSaid: with another secret a search says why it finds no hash, and a listing logs
// one warning. Neither shows the record of the check value.
func TestOtherSecretIsSaid(t *testing.T) {
	t.Parallel()
	p := open(t)
	assert.NoError(t, p.engine.CheckSecret(t.Context()), "first check")
	var log bytes.Buffer
	d := deskWith(t, p.store, otherSecret, slog.New(slog.NewTextHandler(&log, nil)))
	_, err := d.Find(t.Context(), p.engine.KeyHash(p.done), storeapi.ListRequest{}, nil)
	assert.ErrorIs(t, err, retrysafe.ErrNotFound, "find")
	assert.ErrorIs(t, err, retrysafe.ErrSecretChanged, "find")
	_, err = d.Find(t.Context(), "check", storeapi.ListRequest{}, nil)
	assert.True(t, errors.Is(err, retrysafe.ErrNotFound) && !errors.Is(err, retrysafe.ErrSecretChanged), "find the id of the check value: %v", err)

	p.server, err = admin.New(d, &p.options)
	assert.NoError(t, err, "server")
	for range 2 {
		_, list := p.ask(t, "vera", "GET", "/records", "", nil)
		assert.True(t, !strings.Contains(list, `"layer":"secret"`) && strings.Contains(list, "POST /payments"), "list: %s", list)
	}
	assert.Equal(t, strings.Count(log.String(), "differ from those that the service logs"), 1, "warnings: %s", log.String())
	assert.True(t, !strings.Contains(log.String(), otherSecret), "the log has the secret: %s", log.String())
}

// TestSecretIsNotResolved: the check value is no call, so no one resolves it.
func TestSecretIsNotResolved(t *testing.T) {
	t.Parallel()
	p := open(t)
	assert.NoError(t, p.engine.CheckSecret(t.Context()), "first check")
	hash := p.engine.Layer("secret").KeyHash(retrysafe.Key{Operation: "secret", ID: "check"})
	found := get[admin.Search](t, p, "vera", "/records/search?hash="+hash)
	assert.Equal(t, len(found.Records), 1, "records with the hash of the check value")
	status, text := p.ask(t, "rita", "POST", "/records/"+found.Records[0].Ref+"/resolve", `{"fence":1,"outcome":"not-done","reason":"why"}`, nil)
	assert.True(t, status == 400 && strings.Contains(text, "never resolved"), "resolve: %d %s", status, text)
}
