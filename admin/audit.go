package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Entry is one line of the audit log.
type Entry struct {
	Number int       `json:"number" doc:"place in the log of the day, from 1"`
	At     time.Time `json:"at" doc:"time by the store's clock"`
	Who    string    `json:"who" doc:"name of the caller"`
	Origin string    `json:"origin,omitempty" doc:"how the name is known: token, proxy, loopback, or command if it was given with --by; absent: the program that wrote the entry does not say"`
	Action string    `json:"action" doc:"what was done: resolve, reveal, search-answers, export, redrive, discard, resume, forget, rewrap, replace-secret"`
	Object string    `json:"object" doc:"what it was done to: the hash of a record, the name of a queue with ids, or tenant and a hash of a tenant"`
	Reason string    `json:"reason,omitempty" doc:"why, in the caller's words"`
	Detail string    `json:"detail,omitempty" doc:"more about the action, such as the outcome that was set; in the entry of the result also what was done, such as counts"`
	Result string    `json:"result,omitempty" doc:"begun, done, or the error; an entry that says begun and has no later one with Of may have been done or not"`
	Of     int       `json:"of,omitempty" doc:"the number of the entry whose action this is the result of"`
	// Unreadable is never stored.
	Unreadable string `json:"unreadable,omitempty" doc:"why there is only the number and the time: not-sealed if the entry was written without sealing, and this server reads only what is sealed; sealed if this server does not have its key; damaged"`
}

// Audit is the audit log of a store. Its entries are completed records of the layer "audit", one
// operation a day, whose ids are the numbers 1, 2, 3 …: so the last entries are found by exact keys
// on every store, without an index. Entries are never changed.
//
// A claim of a number is atomic, so several processes can write to one log. If a process dies
// between the claim of a number and its entry, the number stays without one.
type Audit struct {
	store     storeapi.Store
	namespace string
	retention time.Duration

	mu   sync.Mutex
	day  string
	last int // a number that was used on day; 0 if none is known
}

// NewAudit returns the log of a namespace. Entries are kept for keep, by default 400 days.
func NewAudit(s storeapi.Store, namespace string, keep time.Duration) *Audit {
	if keep <= 0 {
		keep = 400 * 24 * time.Hour
	}
	return &Audit{store: s, namespace: namespace, retention: keep}
}

// dayForm is the form of a day, in UTC.
const dayForm = "2006-01-02"

func (a *Audit) entryKey(day string, n int) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: a.namespace, Layer: "audit", Key: storeapi.Key{Operation: day, ID: strconv.Itoa(n)}}
}

// Write adds an entry and returns its number. The error means that it is not known to be stored:
// what it is about must not be done.
func (a *Audit) Write(ctx context.Context, e Entry) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, err := a.store.Lookup(ctx, a.entryKey("clock", 1))
	if err != nil {
		return 0, fmt.Errorf("the audit log cannot be written: %w", err)
	}
	e.At, e.Unreadable = now.Now.UTC(), ""
	day := e.At.Format(dayForm)
	if day != a.day {
		a.day, a.last = day, 0
	}
	if a.last, err = a.lastUsed(ctx, day, a.last); err != nil {
		return 0, fmt.Errorf("the audit log cannot be written: %w", err)
	}
	for n := a.last + 1; ; n++ {
		written, err := a.claimAndWrite(ctx, day, n, e)
		if err != nil {
			return 0, fmt.Errorf("the audit log cannot be written: %w", err)
		}
		if a.last = n; written {
			return n, nil
		}
	}
}

// claimAndWrite writes an entry under a number. written is false if another process has the number.
func (a *Audit) claimAndWrite(ctx context.Context, day string, n int, e Entry) (written bool, err error) {
	e.Number = n
	body, err := json.Marshal(e)
	if err != nil {
		return false, err
	}
	// Reexecute keeps a number whose writer died out of the list of what is in doubt.
	req := storeapi.AcquireRequest{
		Key: a.entryKey(day, n), Owner: newOwner(), Lease: time.Minute, Retention: a.retention, OnDoubt: storeapi.Reexecute,
	}
	got, err := a.store.Acquire(ctx, req)
	if err != nil || got.Status != storeapi.StatusAcquired {
		return false, err
	}
	_, err = a.store.Complete(ctx, storeapi.CompleteRequest{
		Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, State: storeapi.StateCompleted,
		Answer: storeapi.Answer{Codec: "json", Body: body, Kept: true}, Retention: a.retention, Quiet: true,
	})
	return err == nil, err
}

// lastUsed returns the largest number that was used on a day, 0 if none. All numbers below a used
// one are used, so it doubles the number until one is free, and then halves the distance.
func (a *Audit) lastUsed(ctx context.Context, day string, used int) (int, error) {
	free := used + 1
	for step := 1; ; step *= 2 {
		taken, err := a.isUsed(ctx, day, free)
		if err != nil {
			return 0, err
		}
		if !taken {
			break
		}
		used, free = free, free+step
	}
	for free-used > 1 {
		middle := used + (free-used)/2
		taken, err := a.isUsed(ctx, day, middle)
		switch {
		case err != nil:
			return 0, err
		case taken:
			used = middle
		default:
			free = middle
		}
	}
	return used, nil
}

func (a *Audit) isUsed(ctx context.Context, day string, n int) (bool, error) {
	rec, err := a.store.Lookup(ctx, a.entryKey(day, n))
	return rec.State != 0, err
}

// Read returns the entries of a day, in UTC, the last ones first: those with numbers below before
// (0: all), at most limit. A number without an entry is left out. An entry that cannot be read has
// only its number, its time and Unreadable.
func (a *Audit) Read(ctx context.Context, day time.Time, before, limit int) (entries []Entry, next int, err error) {
	name := day.UTC().Format(dayForm)
	if before <= 0 {
		last, err := a.lastUsed(ctx, name, 0)
		if err != nil {
			return nil, 0, err
		}
		before = last + 1
	}
	entries = []Entry{}
	n := before - 1
	for ; n > 0 && len(entries) < limit; n-- {
		rec, err := a.store.Lookup(ctx, a.entryKey(name, n))
		if err != nil {
			return nil, 0, err
		}
		if rec.State == storeapi.StateCompleted {
			entries = append(entries, entryOf(n, &rec))
		}
	}
	if n > 0 {
		next = n + 1
	}
	return entries, next, nil
}

// entryOf returns entry n. A store that returns only sealed answers returns none for an entry that
// was written without sealing.
func entryOf(n int, rec *storeapi.Record) (e Entry) {
	var why string
	switch {
	case rec.Answer.Sealed() && rec.Answer.Body == nil:
		why = "not-sealed"
	case rec.Answer.Sealed():
		why = "sealed"
	case json.Unmarshal(rec.Answer.Body, &e) != nil:
		why = "damaged"
	default:
		e.Unreadable = ""
		return e
	}
	return Entry{Number: n, At: rec.Updated.UTC(), Unreadable: why}
}

func newOwner() (o storeapi.Owner) {
	rand.Read(o[:]) // never fails
	return o
}
