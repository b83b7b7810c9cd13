package sealstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// eachKeys runs a test with each implementation of Keys. Two calls of open share what is stored.
func eachKeys(t *testing.T, test func(t *testing.T, open func() sealstore.Keys)) {
	t.Helper()
	t.Run("in a store", func(t *testing.T) {
		t.Parallel()
		inner := memstore.New(nil)
		test(t, func() sealstore.Keys { return sealstore.KeysIn(inner) })
	})
	t.Run("in a directory", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		test(t, func() sealstore.Keys {
			keys, err := sealstore.KeysDir(dir)
			assert.NoError(t, err, "open")
			return keys
		})
	})
}

var (
	ada = sealstore.Tenant{Namespace: "shop", Name: "ada"}
	odd = sealstore.Tenant{Namespace: "shop\x00/ \xff", Name: ""}
)

// TestKeys: a value is stored for one tenant, and replaced only by a caller that knows it.
func TestKeys(t *testing.T) {
	t.Parallel()
	eachKeys(t, func(t *testing.T, open func() sealstore.Keys) {
		t.Helper()
		keys, other := open(), open()
		wants := func(tenant sealstore.Tenant, want []byte) {
			t.Helper()
			for _, k := range []sealstore.Keys{keys, other} {
				got, err := k.Load(t.Context(), tenant)
				assert.NoError(t, err, "load")
				assert.True(t, bytes.Equal(got, want) && (got == nil) == (want == nil), "stored: %q, want %q", got, want)
			}
		}
		swaps := func(k sealstore.Keys, tenant sealstore.Tenant, old, next []byte, want bool) {
			t.Helper()
			did, err := k.Swap(t.Context(), tenant, old, next)
			assert.NoError(t, err, "swap")
			assert.Equal(t, did, want, "swap of %q for %q", old, next)
		}
		one, two, lf := []byte("1"), []byte("2"), []byte("a\nb\n\x00")
		wants(ada, nil)
		swaps(keys, ada, one, two, false)
		wants(ada, nil)
		swaps(keys, ada, nil, one, true)
		swaps(other, ada, nil, two, false)
		swaps(other, ada, two, lf, false)
		wants(ada, one)
		wants(odd, nil)
		swaps(other, ada, one, lf, true)
		swaps(other, odd, nil, two, true)
		wants(ada, lf)
		swaps(keys, ada, one, two, false)
		swaps(keys, ada, lf, one, true) // back to an earlier value
		wants(ada, one)
		wants(odd, two)
		seen := map[sealstore.Tenant]bool{}
		assert.NoError(t, keys.Tenants(t.Context(), func(tenant sealstore.Tenant) error { seen[tenant] = true; return nil }), "tenants")
		assert.Equal(t, seen, map[sealstore.Tenant]bool{ada: true, odd: true}, "tenants")
		stop := errors.New("stop")
		assert.ErrorIs(t, keys.Tenants(t.Context(), func(sealstore.Tenant) error { return stop }), stop, "a walk that is ended")
	})
}

// TestKeysAtOnce: of any number of processes that swap at once, one succeeds.
func TestKeysAtOnce(t *testing.T) {
	t.Parallel()
	eachKeys(t, func(t *testing.T, open func() sealstore.Keys) {
		t.Helper()
		var old []byte
		for round := range 20 {
			won := make([][]byte, 8)
			var all sync.WaitGroup
			for i := range won {
				all.Go(func() {
					next := fmt.Appendf(nil, "%d of round %d", i, round)
					did, err := open().Swap(context.Background(), ada, old, next)
					assert.NoError(t, err, "swap")
					if did {
						won[i] = next
					}
				})
			}
			all.Wait()
			now, err := open().Load(t.Context(), ada)
			assert.NoError(t, err, "load")
			n := 0
			for _, next := range won {
				if next != nil {
					n++
					assert.Equal(t, string(now), string(next), "what is stored is that of the winner")
				}
			}
			assert.Equal(t, n, 1, "winners of round %d", round)
			old = now
		}
	})
}

// TestFirstKeyAtOnce: processes that need the first data key of a tenant at once get the same one.
func TestFirstKeyAtOnce(t *testing.T) {
	t.Parallel()
	eachKeys(t, func(t *testing.T, open func() sealstore.Keys) {
		t.Helper()
		inner, r := memstore.New(nil), sealstore.NewRing("a")
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				finishRecord(t, sealstore.New(inner, r, &sealstore.Options{Keys: open()}), newKey("ada", fmt.Sprint(i)), storeapi.StateCompleted)
			})
		}
		all.Wait()
		for i := range 8 {
			wantOpened(t, sealstore.New(inner, r, &sealstore.Options{Keys: open()}), newKey("ada", fmt.Sprint(i)))
		}
	})
}

// TestDirAfterACrash: what a process that died has left in a directory of keys does no harm, and a
// replaced value does not stay on disk.
func TestDirAfterACrash(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	keys, err := sealstore.KeysDir(path)
	assert.NoError(t, err, "open")
	did, err := keys.Swap(t.Context(), ada, nil, []byte("first"))
	assert.True(t, did && err == nil, "swap: %v", err)
	one, err := filepath.Glob(filepath.Join(path, "*", "1"))
	assert.True(t, err == nil && len(one) == 1, "the file of the first value: %v", one)
	dir := filepath.Dir(one[0])
	first, err := os.ReadFile(one[0])
	assert.NoError(t, err, "read")
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "new-123"), first[:10], 0o600), "half a file without a number")
	assert.NoError(t, os.Mkdir(filepath.Join(path, "0123"), 0o700), "a directory without a value")
	did, err = keys.Swap(t.Context(), ada, []byte("first"), []byte("second"))
	assert.True(t, did && err == nil, "swap: %v", err)
	emptied, err := os.ReadFile(one[0])
	assert.True(t, err == nil && len(emptied) == 0, "the replaced value is still on disk: %q", emptied)
	// A process that died between the new value and the end of the old one:
	assert.NoError(t, os.WriteFile(one[0], first, 0o600), "write")
	got, err := keys.Load(t.Context(), ada)
	assert.True(t, err == nil && string(got) == "second", "load: %q, %v", got, err)
	emptied, err = os.ReadFile(one[0])
	assert.True(t, err == nil && len(emptied) == 0, "the replaced value is still on disk: %q", emptied)
	n := 0
	assert.NoError(t, keys.Tenants(t.Context(), func(sealstore.Tenant) error { n++; return nil }), "tenants")
	assert.Equal(t, n, 1, "tenants")
	// A file of another tenant, or a damaged one, is an error, and never "no key yet".
	for _, text := range []string{"", "x", "shop\nfirst", string(bytes.Replace(first, []byte("ada"), []byte("bob"), 1))} {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, "3"), []byte(text), 0o600), "write")
		_, err := keys.Load(t.Context(), ada)
		assert.True(t, err != nil, "a file with %q is accepted", text)
		_, err = keys.Swap(t.Context(), ada, nil, []byte("third"))
		assert.True(t, err != nil, "a file with %q is replaced", text)
	}
}

// TestKeysFail: whatever call of the store of the data keys fails, and however, an answer that was
// stored can be opened afterwards, and no work runs whose answer could not be sealed.
func TestKeysFail(t *testing.T) {
	t.Parallel()
	for _, fault := range []storetest.Fault{storetest.LoseRequest, storetest.LoseReply} {
		for _, op := range []string{"lookup", "acquire"} {
			for failing := range 4 {
				inner, r := memstore.New(nil), sealstore.NewRing("a")
				stored := memstore.New(nil)
				faulty := storetest.NewFaulty(stored, func(what string, call int) storetest.Fault {
					if what == op && call == failing+1 {
						return fault
					}
					return 0
				})
				s := sealstore.New(inner, r, &sealstore.Options{Keys: sealstore.KeysIn(faulty)})
				got, err := s.Acquire(t.Context(), newRequest(newKey("ada", "1")))
				if err != nil {
					rec, err := inner.Lookup(t.Context(), newKey("ada", "1"))
					assert.True(t, err == nil && rec.State == 0, "a claim that failed is stored: %v", rec)
					got, err = s.Acquire(t.Context(), newRequest(newKey("ada", "1")))
					assert.NoError(t, err, "the next try")
				}
				assert.Equal(t, got.Status, storeapi.StatusAcquired, "the claim")
				finishRecord(t, s, newKey("ada", "1"), storeapi.StateCompleted)
				wantOpened(t, s, newKey("ada", "1"))
				wantOpened(t, sealstore.New(inner, r, &sealstore.Options{Keys: sealstore.KeysIn(stored)}), newKey("ada", "1"))
			}
		}
	}
}

// TestKeysAway: while the store of the data keys is away, an attempt that runs can still store its
// answer. Answers are not opened with a copy that is too old: duplicates get an error that says to
// try again. Finished work is not run again.
func TestKeysAway(t *testing.T) {
	t.Parallel()
	away := false
	stored := memstore.New(nil)
	faulty := storetest.NewFaulty(stored, func(string, int) storetest.Fault {
		if away {
			return storetest.LoseRequest
		}
		return 0
	})
	w := newWorld(sealstore.Options{})
	s := w.newProcess(w.ring, sealstore.Options{Keys: sealstore.KeysIn(faulty), CacheLife: time.Minute})
	got, err := s.Acquire(t.Context(), newRequest(newKey("ada", "1")))
	assert.NoError(t, err, "a claim")
	away = true
	for _, passed := range []time.Duration{time.Second, time.Hour, -3 * time.Hour} {
		// also a clock that is set back
		w.clock.Advance(max(passed, 0))
		w.clock.Rewind(max(-passed, 0))
		rec, err := s.Complete(t.Context(), storeapi.CompleteRequest{
			Key: got.Record.Key, Owner: got.Record.Owner, Fence: got.Record.Fence, State: storeapi.StateCompleted,
			Answer: storeapi.Answer{Codec: "json", Body: []byte(secret), Kept: true},
		})
		if passed == time.Second {
			assert.NoError(t, err, "the end of an attempt")
			assert.Equal(t, string(rec.Answer.Body), secret, "its answer")
			wantOpened(t, s, newKey("ada", "1"))
			continue
		}
		assert.ErrorIs(t, err, storeapi.ErrUnavailable, "a repeated end, whose record cannot be opened now")
		_, err = s.Acquire(t.Context(), duplicateRequest(newKey("ada", "1")))
		assert.ErrorIs(t, err, storeapi.ErrUnavailable, "a duplicate")
		for _, sure := range []error{storeapi.ErrTooLate, storeapi.ErrLeaseLost, errors.ErrUnsupported} {
			assert.True(t, !errors.Is(err, sure), "the error says that the claim was not applied: %v", err)
		}
	}
	got, err = s.Acquire(t.Context(), newRequest(newKey("ada", "2")))
	assert.True(t, err == nil && got.Status == storeapi.StatusAcquired, "a known tenant's work goes on: %v", err)
	_, err = s.Acquire(t.Context(), newRequest(newKey("bob", "1")))
	assert.True(t, err != nil, "a new tenant's work does not begin")
	away = false
	wantOpened(t, s, newKey("ada", "1"))
}

// TestCacheIsBounded: the store of the data keys is asked once for a tenant that is in use, and
// memory has no more keys than it may have.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	looks := 0
	faulty := storetest.NewFaulty(memstore.New(nil), func(op string, _ int) storetest.Fault {
		if op == "lookup" {
			looks++
		}
		return 0
	})
	w := newWorld(sealstore.Options{})
	s := w.newProcess(w.ring, sealstore.Options{Keys: sealstore.KeysIn(faulty), CacheSize: 10, CacheLife: time.Minute})
	tenants := func(n int, id string) (asked int) {
		before := looks
		for i := range n {
			finishRecord(t, s, newKey(fmt.Sprint(i), id), storeapi.StateCompleted)
		}
		return looks - before
	}
	tenants(5, "a")
	assert.Equal(t, tenants(5, "b"), 0, "looks for five tenants in use")
	w.clock.Advance(time.Minute)
	assert.Equal(t, tenants(5, "c"), 5, "looks after a minute")
	tenants(100, "d")
	assert.True(t, tenants(100, "e") >= 90, "a hundred tenants are more than the cache has")
}

// TestForgetAtOnce: Forget beside other processes that use or rewrap the key destroys the key that
// was stored, whatever reply is lost.
func TestForgetAtOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range []storetest.Fault{0, storetest.LoseReply} {
		stored := memstore.New(nil)
		first := true
		w := newWorld(sealstore.Options{})
		var beside func()
		faulty := storetest.NewFaulty(stored, func(op string, _ int) storetest.Fault {
			if op == "acquire" && first {
				first = false
				beside() // another process changes the key between Forget's look and its swap
				return fault
			}
			return 0
		})
		old, next := parseRing(t, ringText("a", "a")), parseRing(t, ringText("b", "a", "b"))
		s := w.newProcess(old, sealstore.Options{Keys: sealstore.KeysIn(stored)})
		finishRecord(t, s, newKey("ada", "1"), storeapi.StateCompleted)
		beside = func() { wantRewrapped(t, w.newProcess(next, sealstore.Options{Keys: sealstore.KeysIn(stored)}), 1) }
		err := w.newProcess(old, sealstore.Options{Keys: sealstore.KeysIn(faulty)}).Forget(t.Context(), ada)
		if fault != 0 {
			assert.True(t, err != nil, "an error, since the reply is lost")
			err = w.newProcess(old, sealstore.Options{Keys: sealstore.KeysIn(faulty)}).Forget(t.Context(), ada)
		}
		assert.NoError(t, err, "forget")
		w.wantUnopened(t, w.newProcess(next, sealstore.Options{Keys: sealstore.KeysIn(stored)}), newKey("ada", "1"), "forgotten")
	}
}
