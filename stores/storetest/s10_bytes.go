package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s10Bytes: keys and answers are binary-safe, answers up to MaxStored. Empty, nil and missing
// differ. Keys that differ in upper and lower case, trailing spaces or Unicode forms are different.
// A key that is too long is an error, and never truncated.
func s10Bytes(e *env) {
	for name, ids := range lookalikeValues() {
		e.runSubtest("different keys: "+name, func(e *env) {
			for _, p := range parts {
				e.wantDistinct(p, ids)
			}
		})
	}
	e.runSubtest("different keys: what stands before and after a separator", func(e *env) {
		base := e.key()
		keys := []storeapi.StoreKey{base, base, base, base}
		keys[0].Tenant, keys[0].Operation = "a/b", "c"
		keys[1].Tenant, keys[1].Operation = "a", "b/c"
		keys[2].Tenant, keys[2].Operation = "", "a/b/c"
		keys[3].Tenant, keys[3].Operation = "a%2Fb", "c"
		e.wantAllAcquired(keys)
	})
	e.runSubtest("every byte in every part", func(e *env) {
		all := allBytes()
		base := e.key()
		var keys []storeapi.StoreKey
		for _, p := range parts {
			k := base
			p.set(&k, all)
			keys = append(keys, k)
		}
		e.wantAllAcquired(keys)
	})
	e.runSubtest("a part that is too long", checkTooLong)
	for name, a := range distinctAnswers() {
		e.runSubtest("answer: "+name, func(e *env) {
			r := e.claim(e.newRequest(e.key()))
			end := completeRequest(r, "")
			end.Answer = a
			e.wantAnswered(e.complete(end), storeapi.StateCompleted, a, "what Complete returns")
			e.wantAnswered(e.lookup(r.Key), storeapi.StateCompleted, a, "what Lookup returns")
			e.wantAnswered(e.acquire(e.newRequest(r.Key), storeapi.StatusFinished, "after the end"), storeapi.StateCompleted, a, "what Acquire returns")
		})
	}
	e.runSubtest("every byte in fingerprint and binding", func(e *env) {
		req := e.newRequest(e.key())
		req.Fingerprint, req.Binding = []byte(allBytes())[:200], []byte(allBytes())[56:]
		e.claim(req)
		r := e.lookup(req.Key)
		assert.Equal(e, r.Fingerprint, req.Fingerprint, "fingerprint")
		assert.Equal(e, r.Binding, req.Binding, "binding")
		last := req
		last.Owner, last.Fingerprint = newOwner(), bytes.Clone(req.Fingerprint)
		last.Fingerprint[199]++
		e.acquire(last, storeapi.StatusMismatch, "whose fingerprint differs in its last byte")
	})
	e.runSubtest("missing fingerprint and binding", func(e *env) {
		r := running.reach(e, e.newRequest(e.key()))
		assert.Equal(e, r.Fingerprint, nil, "fingerprint of a record without one")
		assert.Equal(e, r.Binding, nil, "binding of a record without one")
	})
	e.runSubtest("bytes that are given or returned belong to the caller", ownBytes)
}

// part is one of the five parts of a key.
type part struct {
	name string
	set  func(*storeapi.StoreKey, string)
}

var parts = []part{
	{"namespace", func(k *storeapi.StoreKey, s string) { k.Namespace = s }},
	{"layer", func(k *storeapi.StoreKey, s string) { k.Layer = s }},
	{"tenant", func(k *storeapi.StoreKey, s string) { k.Tenant = s }},
	{"operation", func(k *storeapi.StoreKey, s string) { k.Operation = s }},
	{"id", func(k *storeapi.StoreKey, s string) { k.ID = s }},
}

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// lookalikeValues are values that some database, codec or column treats as equal.
func lookalikeValues() map[string][]string {
	long := []string{strings.Repeat("k", storeapi.MaxPart)}
	for _, n := range []int{63, 64, 100, 127, 128, 190, 191, 255, 256, 500, storeapi.MaxPart - 1} {
		b := []byte(long[0])
		b[n] = 'K' // differs from all others only in this byte
		long = append(long, string(b), long[0][:n])
	}
	return map[string][]string{
		"case":              {"abc", "ABC", "Abc", "straße", "STRASSE", "ı", "i", "İ", "I"},
		"spaces":            {"a", "a ", " a", "a  ", "a\t", "a\n", "a\r\n", "a\u00a0", "a\u200b"},
		"Unicode forms":     {"é", "e\u0301", "Å", "\u212b", "A\u030a", "ﬁ", "fi", "１", "1", "①"},
		"zeros and numbers": {"0", "00", "0.0", "-0", "0e1", "0x0", "\x00", "0\x00", "\x000"},
		"bytes that are not text": {
			"\xff", "\xfe", "\xc3\x28", "\xc3", "\xed\xa0\x80", "\ufffd", "\xff\xff", "%FF", "%ff",
		},
		"quotes and escapes": {`'`, `''`, `"`, `\`, `\\`, `\'`, `%`, `_`, `*`, `{a}`, `{b}`, "$1", "?", "`", ";--", ".", "../.."},
		"length":             long,
	}
}

// wantDistinct wants different values of one part to be different keys.
func (e *env) wantDistinct(p part, values []string) {
	e.Helper()
	base := e.key()
	keys := make([]storeapi.StoreKey, len(values))
	for i, v := range values {
		keys[i] = base
		p.set(&keys[i], v)
	}
	e.wantAllAcquired(keys)
}

// wantAllAcquired wants each key to be acquired, and each record to have its own key and owner.
func (e *env) wantAllAcquired(keys []storeapi.StoreKey) {
	e.Helper()
	won := make([]storeapi.Record, len(keys))
	for i, k := range keys {
		a, err := e.Store.Acquire(e.ctx, e.newRequest(k))
		assert.NoError(e, err, "Acquire of key %+q", keyParts(k))
		if a.Status != storeapi.StatusAcquired {
			e.Fatalf("Acquire of key %+q: got %s, want StatusAcquired: it was taken for another key", keyParts(k), statusName(a.Status))
		}
		won[i] = a.Record
	}
	for i, k := range keys {
		r := e.lookup(k)
		assert.Equal(e, r.Owner, won[i].Owner, "owner of key %+q", keyParts(k))
		assert.Equal(e, r.Fence, won[i].Fence, "fence of key %+q", keyParts(k))
	}
}

func keyParts(k storeapi.StoreKey) []string {
	return []string{k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID}
}

func checkTooLong(e *env) {
	long := strings.Repeat("k", storeapi.MaxPart+1)
	for _, p := range parts {
		key := e.key()
		p.set(&key, long)
		r := storeapi.Record{Key: key, Owner: newOwner(), Fence: 1}
		_, acquireErr := e.Store.Acquire(e.ctx, e.newRequest(key))
		_, lookupErr := e.Store.Lookup(e.ctx, key)
		errs := map[string]error{"Acquire": acquireErr, "Lookup": lookupErr}
		for _, c := range holderCalls {
			errs[c.name] = c.make(e, r)
		}
		if s, ok := e.Store.(storeapi.Issuer); ok && e.f.Issuer {
			_, errs["Issue"] = s.Issue(e.ctx, storeapi.IssueRequest{Key: key, Owner: r.Owner, Retention: retention})
		}
		for name, err := range errs {
			assert.ErrorIs(e, err, storeapi.ErrInvalidKey, "%s with a %s of %d bytes", name, p.name, len(long))
		}
		// The beginning of the long part is another key, and free.
		p.set(&key, long[:storeapi.MaxPart])
		e.claim(e.newRequest(key))
	}
}

// distinctAnswers returns answers that must stay distinct and come back byte for byte.
func distinctAnswers() map[string]storeapi.Answer {
	large := make([]byte, storeapi.MaxStored)
	random := rand.NewChaCha8([32]byte{1}) // does not compress, and is the same in each run
	_, _ = random.Read(large)              // never fails
	none := sha256.Sum256(nil)
	return map[string]storeapi.Answer{
		"every byte":               {Codec: "raw", Body: []byte(allBytes()), Kept: true},
		"empty":                    {Codec: "raw", Body: []byte{}, Kept: true},
		"nil":                      {Codec: "raw", Kept: true},
		"no codec":                 {Body: []byte("x"), Kept: true},
		"codec alone":              {Codec: "json", Kept: true},
		"zero":                     {},
		"missing, with its head":   {Codec: "message/http", Body: []byte("head"), Size: 5 << 30, Digest: sha256.Sum256([]byte("x"))},
		"missing, nil":             {Codec: "raw", Size: 1 << 40, Digest: sha256.Sum256([]byte("y"))},
		"missing, empty":           {Codec: "raw", Body: []byte{}, Size: 12, Digest: sha256.Sum256([]byte("z"))},
		"missing, of no length":    {Codec: "raw", Digest: none},
		"not text":                 {Codec: "raw", Body: []byte("\xff\xfe\x00\xc3("), Kept: true},
		"zero bytes at the end":    {Codec: "raw", Body: []byte("a\x00\x00"), Kept: true},
		"spaces at the end":        {Codec: "raw", Body: []byte("a  \n"), Kept: true},
		"the largest":              {Codec: "raw", Body: large, Kept: true},
		"the largest, all zero":    {Codec: "raw", Body: make([]byte, storeapi.MaxStored), Kept: true},
		"what looks like no value": {Codec: "null", Body: []byte("null"), Kept: true},
	}
}

// ownBytes changes the memory that it passed and got back, and wants the record to stay unchanged.
func ownBytes(e *env) {
	spoil := func(bs ...[]byte) {
		for _, b := range bs {
			for i := range b {
				b[i] = '!'
			}
		}
	}
	req := e.newRequest(e.key())
	req.Fingerprint, req.Binding = bytes.Clone(printA), bytes.Clone(bindA)
	r := e.claim(req)
	spoil(req.Fingerprint, req.Binding, r.Fingerprint, r.Binding)
	is := func(what string) {
		e.Helper()
		got := e.lookup(r.Key)
		if e.f.Light && got.State.Finished() {
			return
		}
		assert.Equal(e, string(got.Fingerprint), string(printA), "fingerprint after the caller changed %s", what)
		assert.Equal(e, string(got.Binding), string(bindA), "binding after the caller changed %s", what)
		if got.State.Finished() {
			assert.Equal(e, string(got.Answer.Body), "answer", "answer after the caller changed %s", what)
		}
		spoil(got.Fingerprint, got.Binding, got.Answer.Body)
	}
	is("what it gave to and got from Acquire")
	is("what it got from Lookup")
	end := completeRequest(r, "answer")
	for _, what := range []string{"what it gave to and got from Complete", "what it gave to and got from a repeated Complete"} {
		done := e.complete(end)
		spoil(end.Answer.Body, done.Fingerprint, done.Binding, done.Answer.Body)
		is(what)
		copy(end.Answer.Body, "answer")
	}
	again := e.newRequest(r.Key)
	again.Fingerprint = bytes.Clone(printA)
	got := e.acquire(again, storeapi.StatusFinished, "after the caller changed its bytes")
	spoil(again.Fingerprint, got.Fingerprint, got.Binding, got.Answer.Body)
	is("what it gave to and got from Acquire of a finished record")
	if l, ok := e.Store.(storeapi.Lister); ok && e.f.Lister {
		page, err := l.List(e.ctx, storeapi.ListRequest{Operation: r.Key.Operation})
		if !errors.Is(err, errors.ErrUnsupported) {
			assert.NoError(e, err, "List")
		}
		for _, got := range page.Records {
			spoil(got.Fingerprint, got.Binding)
		}
		is("what it got from List")
	}
}
