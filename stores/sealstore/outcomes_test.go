package sealstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestNothingInTheClear: no record of the inner store has a text of the work: not as an answer, a
// refusal, progress, or the text of an error.
func TestNothingInTheClear(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	finishRecord(t, w, newKey("ada", "done"), storeapi.StateCompleted)
	finishRecord(t, w, newKey("ada", "refused"), storeapi.StateFailed)
	got, err := w.Acquire(t.Context(), newRequest(newKey("ada", "steps")))
	assert.NoError(t, err, "acquire")
	r := got.Record
	assert.NoError(t, w.Extend(t.Context(), storeapi.ExtendRequest{
		Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: time.Hour, Progress: &storeapi.Answer{Codec: "steps", Body: []byte(secret), Size: 1},
	}), "progress")
	assert.NoError(t, w.Release(t.Context(), storeapi.ReleaseRequest{
		Key: r.Key, Owner: r.Owner, Fence: r.Fence, InDoubt: true, LastError: "the bank says " + secret,
	}), "a doubt")
	const number = "DE89370400440532013000" // so long that base64 never has it by chance
	assert.Contains(t, secret, number, "the secret")
	for _, id := range []string{"done", "refused", "steps"} {
		rec, err := w.inner.Lookup(t.Context(), newKey("ada", id))
		assert.NoError(t, err, "look")
		assert.True(t, rec.Answer.Sealed(), "%s: the codec says that it is sealed: %s", id, rec.Answer.Codec)
		all, err := json.Marshal(rec)
		assert.NoError(t, err, "marshal")
		assert.True(t, !bytes.Contains(append(all, rec.Answer.Body...), []byte(number)) && !strings.Contains(rec.LastError, number), "%s: text in the clear", id)
	}
	rec, err := w.Lookup(t.Context(), r.Key)
	assert.NoError(t, err, "look")
	assert.Equal(t, string(rec.Answer.Body), secret, "progress")
	assert.Equal(t, rec.LastError, "the bank says "+secret, "last error")
	page, err := w.List(t.Context(), storeapi.ListRequest{InDoubt: true})
	assert.NoError(t, err, "list")
	assert.True(t, len(page.Records) == 1 && page.Records[0].LastError == rec.LastError && page.Records[0].Answer.Codec == "steps", "lists: %v", page.Records)
}

// TestForget: what was sealed for a forgotten tenant is not opened again, by this process at once
// and by others when their copy of the key is too old. Duplicates run nothing. Other tenants, and
// what the tenant does next, are not concerned.
func TestForget(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]func(*testing.T) sealstore.Keys{
		"in the store": func(*testing.T) sealstore.Keys { return nil }, "in a directory": newDir,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := keys(t)
			w := newWorld(sealstore.Options{Keys: shared})
			other := w.newProcess(w.ring, sealstore.Options{Keys: shared, CacheLife: time.Minute})
			finishRecord(t, w, newKey("ada", "1"), storeapi.StateCompleted)
			finishRecord(t, w, newKey("bob", "1"), storeapi.StateCompleted)
			wantOpened(t, other, newKey("ada", "1"))
			assert.NoError(t, w.Forget(t.Context(), sealstore.Tenant{Namespace: "shop", Name: "ada"}), "forget")
			w.wantUnopened(t, w, newKey("ada", "1"), "forgotten")
			wantOpened(t, w, newKey("bob", "1"))
			w.clock.Advance(time.Minute)
			w.wantUnopened(t, other, newKey("ada", "1"), "forgotten")
			assert.NoError(t, w.Forget(t.Context(), sealstore.Tenant{Namespace: "shop", Name: "ada"}), "forget again")
			assert.ErrorIs(t, w.Forget(t.Context(), sealstore.Tenant{Namespace: "shop", Name: "nobody"}), sealstore.ErrNoKey, "forget a tenant without a key")
			finishRecord(t, w, newKey("ada", "2"), storeapi.StateCompleted)
			wantOpened(t, other, newKey("ada", "2"))
			w.wantUnopened(t, other, newKey("ada", "1"), "forgotten")
			differs := duplicateRequest(newKey("ada", "1"))
			differs.Fingerprint = []byte("\x01other")
			got, err := w.Acquire(t.Context(), differs)
			assert.NoError(t, err, "another payload")
			assert.Equal(t, got.Status, storeapi.StatusMismatch, "a payload is compared before an answer is opened")
		})
	}
}

// TestForgetLeavesTheAuditLog: the audit log of a namespace has a data key of its own. Its entries
// are opened when every tenant was forgotten, also the empty one. A tenant's records in a layer of
// that name are the tenant's.
func TestForgetLeavesTheAuditLog(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]func(*testing.T) sealstore.Keys{
		"in the store": func(*testing.T) sealstore.Keys { return nil }, "in a directory": newDir,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := keys(t)
			w := newWorld(sealstore.Options{Keys: shared})
			entry, none, ada := newKey("", "1"), newKey("", "2"), newKey("ada", "1")
			entry.Layer, entry.Operation = "audit", "2026-11-01"
			ada.Layer, ada.Operation = entry.Layer, entry.Operation
			for _, k := range []storeapi.StoreKey{entry, none, ada} {
				finishRecord(t, w, k, storeapi.StateCompleted)
			}
			if shared == nil {
				shared = sealstore.KeysIn(w.inner)
			}
			logs := 0
			assert.NoError(t, shared.Tenants(t.Context(), func(tenant sealstore.Tenant) error {
				err := w.Forget(t.Context(), tenant)
				if tenant.Namespace == sealstore.Namespace {
					logs++
					assert.True(t, err != nil && strings.Contains(err.Error(), "audit log"), "forget the key of the audit log: %v", err)
					return nil
				}
				return err
			}), "forget every tenant")
			assert.NoError(t, w.Forget(t.Context(), sealstore.Tenant{Namespace: "shop"}), "forget the empty tenant")
			assert.Equal(t, logs, 1, "data keys of an audit log")
			w.wantUnopened(t, w, none, "forgotten")
			w.wantUnopened(t, w, ada, "forgotten")
			other := w.newProcess(w.ring, sealstore.Options{Keys: shared})
			wantOpened(t, w, entry)
			wantOpened(t, other, entry)
			_, err := w.Rewrap(t.Context())
			assert.NoError(t, err, "rewrap")
			wantOpened(t, other, entry)
		})
	}
}

// TestBareFinishNeedsNoKey: a finished record without a text, such as the check value of a secret,
// is written and read without a data key, and none is made for it.
func TestBareFinishNeedsNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{OnlySealed: true})
	// its data key cannot be opened by the other process
	finishRecord(t, w, newKey("", "1"), storeapi.StateCompleted)
	other := w.newProcess(sealstore.NewRing("2025-01"), sealstore.Options{OnlySealed: true})
	for _, k := range []storeapi.StoreKey{newKey("", "2"), newKey("ada", "2")} {
		req := newRequest(k)
		req.Binding, req.Finish = []byte("value"), &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: "none"}}
		got, err := other.Acquire(t.Context(), req)
		assert.True(t, err == nil && got.Status == storeapi.StatusAcquired, "write: %v, %v", got.Status, err)
		rec, err := other.Lookup(t.Context(), k)
		assert.True(t, err == nil && string(rec.Binding) == "value", "read: %q, %v", rec.Binding, err)
	}
	stored, err := sealstore.KeysIn(w.inner).Load(t.Context(), sealstore.Tenant{Namespace: "shop", Name: "ada"})
	assert.True(t, err == nil && stored == nil, "a data key was made: %v", err)
	withText := newRequest(newKey("", "3"))
	withText.Finish = &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: "raw", Body: []byte("x"), Kept: true}}
	_, err = other.Acquire(t.Context(), withText)
	assert.True(t, err != nil, "a text was written without a key")
}

// TestMasterKeyMissing: without the master key, duplicates of finished work run nothing, and new
// work does not begin, since its answer could not be sealed.
func TestMasterKeyMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	finishRecord(t, w, newKey("ada", "1"), storeapi.StateCompleted)
	other := w.newProcess(sealstore.NewRing("2025-01"), sealstore.Options{})
	w.wantUnopened(t, other, newKey("ada", "1"), "2026-11")
	_, err := other.Acquire(t.Context(), newRequest(newKey("ada", "2")))
	assert.True(t, err != nil && strings.Contains(err.Error(), "2026-11"), "new work: %v", err)
	rec, err := w.inner.Lookup(t.Context(), newKey("ada", "2"))
	assert.NoError(t, err, "look")
	assert.Equal(t, rec.State, 0, "nothing is stored of it")
	impostor := w.newProcess(sealstore.NewRing("2026-11"), sealstore.Options{})
	w.wantUnopened(t, impostor, newKey("ada", "1"), "damaged")
	finishRecord(t, other, newKey("bob", "1"), storeapi.StateCompleted)
}

// TestExpiresWithoutKey: if the record expires after the look that found it finished, a process
// without the master key does not run the work.
func TestExpiresWithoutKey(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	finishRecord(t, w, newKey("ada", "1"), storeapi.StateCompleted)
	inner := &forgetful{Store: w.inner}
	s := sealstore.New(inner, sealstore.NewRing("other"), &sealstore.Options{Keys: sealstore.KeysIn(w.inner)})
	_, err := s.Acquire(t.Context(), duplicateRequest(newKey("ada", "1")))
	assert.ErrorIs(t, err, storeapi.ErrUnavailable, "the claim")
}

// forgetful grants every claim.
type forgetful struct{ storeapi.Store }

func (f *forgetful) Acquire(_ context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return storeapi.Acquired{Status: storeapi.StatusAcquired, Record: storeapi.Record{Key: r.Key, State: storeapi.StateInProgress, Owner: r.Owner, Fence: 1}}, nil
}

// TestSwapped: an answer that somebody has put into another record is not opened there, whichever
// part of the key differs, nor as the answer of another kind.
func TestSwapped(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	from := newKey("ada", "1")
	finishRecord(t, w, from, storeapi.StateCompleted)
	stolen, err := w.inner.Lookup(t.Context(), from)
	assert.NoError(t, err, "look")
	for name, change := range map[string]func(*storeapi.Record){
		"namespace": func(r *storeapi.Record) { r.Key.Namespace = "shop2" },
		"layer":     func(r *storeapi.Record) { r.Key.Layer = "http" },
		"tenant":    func(r *storeapi.Record) { r.Key.Tenant = "bob" },
		"operation": func(r *storeapi.Record) { r.Key.Operation = "refund" },
		"id":        func(r *storeapi.Record) { r.Key.ID = "2" },
		"state":     func(r *storeapi.Record) { r.State = storeapi.StateFailed },
		"codec":     func(r *storeapi.Record) { r.Answer.Codec = storeapi.SealedPrefix + "raw" },
		"size":      func(r *storeapi.Record) { r.Answer.Size = 7 },
		"kept":      func(r *storeapi.Record) { r.Answer.Kept = false },
	} {
		rec := stolen
		change(&rec)
		s := sealstore.New(fixed{&rec}, w.ring, &sealstore.Options{Keys: sealstore.KeysIn(w.inner)})
		if rec.Key.Tenant != from.Tenant { // with a data key of its own
			finishRecord(t, w, rec.Key, storeapi.StateCompleted)
		}
		found, err := s.Lookup(t.Context(), rec.Key)
		assert.NoError(t, err, "another %s", name)
		assert.True(t, found.Answer.Sealed() && !found.Answer.Kept, "another %s: opened as %v", name, found.Answer)
	}
	_, err = sealstore.New(fixed{&stolen}, w.ring, &sealstore.Options{Keys: sealstore.KeysIn(w.inner)}).Lookup(t.Context(), from)
	assert.NoError(t, err, "unchanged")
	wantOpened(t, w, from)
}

// TestDamaged: no bit of a sealed answer can be changed.
func TestDamaged(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	finishRecord(t, w, newKey("ada", "0"), storeapi.StateCompleted)
	stored, err := w.inner.Lookup(t.Context(), newKey("ada", "0"))
	assert.NoError(t, err, "look")
	for i := range 8 * len(stored.Answer.Body) {
		rec := stored
		rec.Answer.Body = bytes.Clone(stored.Answer.Body)
		rec.Answer.Body[i/8] ^= 1 << (i % 8)
		got, err := sealstore.New(fixed{&rec}, w.ring, &sealstore.Options{Keys: sealstore.KeysIn(w.inner)}).Lookup(t.Context(), rec.Key)
		assert.NoError(t, err, "look")
		assert.True(t, got.Answer.Sealed() && !got.Answer.Kept, "bit %d: opened as %v", i, got.Answer)
	}
}

// fixed has one record.
type fixed struct{ rec *storeapi.Record }

func (f fixed) Lookup(context.Context, storeapi.StoreKey) (storeapi.Record, error) {
	return *f.rec, nil
}

func (fixed) Acquire(context.Context, storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return storeapi.Acquired{}, errors.ErrUnsupported
}
func (fixed) Extend(context.Context, storeapi.ExtendRequest) error { return errors.ErrUnsupported }
func (fixed) Complete(context.Context, storeapi.CompleteRequest) (storeapi.Record, error) {
	return storeapi.Record{}, errors.ErrUnsupported
}

func (fixed) Release(context.Context, storeapi.ReleaseRequest) error { return errors.ErrUnsupported }

// TestFromBefore: answers from before sealing are returned, unless OnlySealed is set.
func TestFromBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	finishRecord(t, w.inner, newKey("ada", "1"), storeapi.StateCompleted)
	wantOpened(t, w, newKey("ada", "1"))
	w.wantUnopened(t, w.newProcess(w.ring, sealstore.Options{OnlySealed: true}), newKey("ada", "1"), "not sealed")
}

// TestSealedTwice: a store that is sealed twice by mistake still works.
func TestSealedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	twice := sealstore.New(w.Store, sealstore.NewRing("b"), &sealstore.Options{Keys: sealstore.KeysIn(memstore.New(nil))})
	finishRecord(t, twice, newKey("ada", "1"), storeapi.StateCompleted)
	wantOpened(t, twice, newKey("ada", "1"))
}

// TestNamespaceOfKeys: callers cannot reach the records of data keys.
func TestNamespaceOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(sealstore.Options{})
	finishRecord(t, w, newKey("ada", "1"), storeapi.StateCompleted)
	k := newKey("ada", "1")
	k.Namespace = sealstore.Namespace
	_, err := w.Acquire(t.Context(), newRequest(k))
	assert.ErrorIs(t, err, storeapi.ErrInvalidKey, "a claim there")
	page, err := w.List(t.Context(), storeapi.ListRequest{})
	assert.NoError(t, err, "list")
	assert.Equal(t, len(page.Records), 1, "records in a list")
}
