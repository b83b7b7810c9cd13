package httpidemtest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// RunContract tests each row of a contract over HTTP. [Run] does so for every contract.
func RunContract(t *testing.T, open Open, contract httpidem.Contract) {
	t.Helper()
	i := slices.IndexFunc(promises, func(p promise) bool { return p.contract == contract })
	if i < 0 {
		t.Fatalf("there is no contract %d; use the constants of httpidem", contract)
	}
	p := &promises[i]
	for _, row := range []struct {
		name string
		run  func(*testing.T, Open, *promise)
	}{
		{"marker", testMarker},
		{"refusals", testRefusals},
		{"busy", testBusy},
		{"required", testRequired},
		{"equality", testContractEquality},
		{"5xx", testServerErrors},
		{"retention", testRetention},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t, open, p)
		})
	}
}

func testContracts(t *testing.T, open Open) {
	for _, p := range promises {
		t.Run(p.contract.String(), func(t *testing.T) {
			t.Parallel()
			RunContract(t, open, p.contract)
		})
	}
}

// setup returns the setup of an implementation under the contract.
func (p *promise) setup() Setup {
	return Setup{Policy: p.policy, Guard: httpidem.Options{Contract: p.contract}}
}

// checkRefusal checks that r is a refusal in the form of the contract. key is empty if the request
// had no valid one.
func (p *promise) checkRefusal(t *testing.T, r reply, want refusal, key string) {
	t.Helper()
	assert.Equal(t, r.status, want.status, "status (body %s)", r.body)
	assert.Equal(t, r.header.Get("Content-Type"), p.media, "content type")
	got := p.read(t, r.body)
	got.status = r.status
	assert.Equal(t, got, want, "refusal (body %s)", r.body)
	assert.Contains(t, r.header.Get("Link"), `rel="describedby"`, "Link")
	assert.Equal(t, r.header[p.marker], nil, "a refusal is no replay")
	p.checkEcho(t, r, key)
}

// checkEcho checks that the answer has the key if the contract says so, and else has none.
func (p *promise) checkEcho(t *testing.T, r reply, key string) {
	t.Helper()
	if !p.echo || key == "" {
		assert.Equal(t, r.header["Idempotency-Key"], nil, "the key is not in the answer")
		return
	}
	assert.Equal(t, r.header["Idempotency-Key"], []string{key}, "the key in the answer")
}

// testMarker tests how a replayed answer is marked, and that both answers have the key. An origin
// may be such a service itself: its own fields do not mark an answer as replayed.
func testMarker(t *testing.T, open Open, p *promise) {
	wd := newWorld(t, open, p.setup(), nil)
	for _, key := range []string{"k", `"a quoted key"`} {
		first := wd.send(keyedCall(key, `{"n":1}`, "Content-Type", jsonBody))
		assert.Equal(t, first.status, http.StatusCreated, "status (body %s)", first.body)
		assert.Equal(t, first.header[p.marker], nil, "the first answer is no replay")
		p.checkEcho(t, first, key)
		again := wd.send(keyedCall(key, `{"n":1}`, "Content-Type", jsonBody))
		assert.Equal(t, again.header[p.marker], []string{"true"}, "the mark of a replay")
		assert.Equal(t, again.header[p.other], nil, "the mark of other contracts")
		assert.Equal(t, again.status, first.status, "status")
		assert.Equal(t, again.body, first.body, "body")
		p.checkEcho(t, again, key)
	}
	wd.checkStarts(2, "for two keys")
	own := newWorld(t, open, p.setup(), func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(p.marker, "false") })
	own.send(keyedCall("k", ""))
	assert.Equal(t, own.send(keyedCall("k", "")).header[p.marker], []string{"true"}, "the mark of a replay, whatever the origin said")
}

// testRefusals tests the status and the document of refusals.
func testRefusals(t *testing.T, open Open, p *promise) {
	s := p.setup()
	store := &breakableStore{Store: memstore.New(nil)}
	s.Store, s.Guard.Key = store, httpidem.Required
	wd := newWorld(t, open, s, nil)
	p.checkRefusal(t, wd.send(call{body: "x", header: withKey("k")[2:]}), p.missing, "")
	p.checkRefusal(t, wd.send(keyedCall("no key", "x")), p.malformed, "")
	p.checkRefusal(t, wd.send(keyedCall(strings.Repeat("k", 256), "x")), p.malformed, "")
	wd.checkStarts(0, "for requests without a key")
	assert.Equal(t, wd.send(keyedCall(strings.Repeat("k", 255), "x")).status, http.StatusCreated, "a key of 255 characters")
	wd.send(keyedCall("k", "x"))
	p.checkRefusal(t, wd.send(keyedCall("k", "y")), p.mismatch, "k")
	wd.checkStarts(2, "for two keys")
	store.down.Store(true)
	r := wd.send(keyedCall("l", "x"))
	p.checkRefusal(t, r, p.down, "l")
	assert.Equal(t, r.header.Get("Retry-After"), "1", "Retry-After")
}

// testBusy tests the answer while the first request runs.
func testBusy(t *testing.T, open Open, p *promise) {
	hold, entered := make(chan struct{}), make(chan struct{})
	wd := newWorld(t, open, p.setup(), func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-hold
	})
	var first sync.WaitGroup
	first.Go(func() { _, _ = wd.trySend(keyedCall("k", "x")) })
	<-entered
	r := wd.send(keyedCall("k", "x"))
	close(hold)
	first.Wait()
	p.checkRefusal(t, r, p.busy, "k")
	assert.True(t, r.header.Get("Retry-After") != "", "Retry-After")
	wd.checkStarts(1, "in all")
}

// testRequired tests whether a POST needs a key, and that an option takes precedence.
func testRequired(t *testing.T, open Open, p *promise) {
	keyless := call{body: "x", header: withKey("k")[2:]}
	wd := newWorld(t, open, p.setup(), nil)
	if r := wd.send(keyless); p.required {
		p.checkRefusal(t, r, p.missing, "")
	} else {
		assert.Equal(t, r.status, http.StatusCreated, "a POST without a key (body %s)", r.body)
		p.checkEcho(t, r, "")
	}
	s := p.setup()
	s.Guard.Key = httpidem.Optional
	assert.Equal(t, newWorld(t, open, s, nil).send(keyless).status, http.StatusCreated, "a POST without a key where the option says optional")
}

// testContractEquality tests which bodies are the same, and that an option takes precedence.
func testContractEquality(t *testing.T, open Open, p *promise) {
	const first, spelled = `{"n":1,"note":null}`, `{"note": null, "n": 1.0}`
	same := func(s Setup, meaning bool) {
		t.Helper()
		wd := newWorld(t, open, s, nil)
		wd.send(mediaCall("k", jsonBody, first))
		if r := wd.send(mediaCall("k", jsonBody, spelled)); meaning {
			assert.Equal(t, r.header.Get(p.marker), "true", "the same JSON in another spelling (body %s)", r.body)
		} else {
			p.checkRefusal(t, r, p.mismatch, "k")
		}
		// absent is not null
		p.checkRefusal(t, wd.send(mediaCall("k", jsonBody, `{"n":1}`)), p.mismatch, "k")
		wd.checkStarts(1, "in all")
	}
	same(p.setup(), p.meaning)
	for as, meaning := range map[httpidem.Fingerprint]bool{httpidem.FingerprintBytes: false, httpidem.FingerprintJSON: true} {
		s := p.setup()
		s.Guard.Request.Fingerprint = as
		same(s, meaning)
	}
}

// testServerErrors tests what an answer of 500 and above means, and that an option takes
// precedence.
func testServerErrors(t *testing.T, open Open, p *promise) {
	kept := func(s Setup, want bool) {
		t.Helper()
		wd := newWorld(t, open, s, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		wd.send(keyedCall("k", "x"))
		again := wd.send(keyedCall("k", "x"))
		assert.Equal(t, again.status, http.StatusInternalServerError, "status")
		assert.Equal(t, again.header.Get(p.marker) == "true", want, "a 500 is replayed")
		starts := int64(2)
		if want {
			starts = 1
		}
		wd.checkStarts(starts, "after a 500")
	}
	kept(p.setup(), p.keeps5xx)
	s := p.setup()
	s.Policy.OnDoubt = retrysafe.Reexecute
	kept(s, p.keepsAlways)
	s.Guard.Answer.After5xx = httpidem.After5xxKeep
	kept(s, true)
	s.Guard.Answer.After5xx = httpidem.After5xxRelease
	kept(s, false)
}

// retentionStore is a store that notes how long an answer is kept.
type retentionStore struct {
	storeapi.Store
	mu         sync.Mutex
	retentions []time.Duration
}

func (m *retentionStore) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if r.Finish == nil { // it is one for the check value of a secret
		m.addRetention(r.Retention)
	}
	return m.Store.Acquire(ctx, r)
}

func (m *retentionStore) Complete(ctx context.Context, r storeapi.CompleteRequest) (retrysafe.Record, error) {
	m.addRetention(r.Retention)
	return m.Store.Complete(ctx, r)
}

func (m *retentionStore) addRetention(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d != 0 {
		m.retentions = append(m.retentions, d)
	}
}

// testRetention tests how long answers are kept if the engine keeps them for an hour.
func testRetention(t *testing.T, open Open, p *promise) {
	kept := func(own, want time.Duration) {
		t.Helper()
		s, store := p.setup(), &retentionStore{Store: memstore.New(nil)}
		s.Store, s.Policy.Retention, s.Guard.Policy.Retention = store, time.Hour, own
		newWorld(t, open, s, nil).send(keyedCall("k", "x"))
		store.mu.Lock()
		defer store.mu.Unlock()
		assert.True(t, len(store.retentions) > 0, "an answer was kept")
		for _, d := range store.retentions {
			assert.Equal(t, d, want, "retention")
		}
	}
	kept(0, max(time.Hour, p.retention))
	kept(2*time.Hour, 2*time.Hour) // an option takes precedence
}
