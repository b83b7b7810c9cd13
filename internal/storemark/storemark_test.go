package storemark_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/storemark"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// at is the time of the nth mark of these tests.
func at(n int) time.Time { return time.Unix(1_800_000_000+5*int64(n), 0) }

// grow returns h with marks at n times, made by a process that has seen all of them.
func grow(h storemark.History, from, n int) storemark.History {
	for i := range n {
		h = h.Next(&h, at(from+i))
	}
	return h
}

// TestWentBack: a store went back if it lacks the mark that a process has seen, whatever other
// processes have written since.
func TestWentBack(t *testing.T) {
	t.Parallel()
	backup := grow(storemark.History{}, 0, 10)
	seen := grow(backup, 10, 3)
	gone := storemark.History{}
	for name, c := range map[string]struct {
		store *storemark.History
		want  bool
	}{
		"unchanged":                       {&seen, false},
		"further marks":                   {ptr(grow(seen, 13, 20)), false},
		"marks that a process has missed": {ptr(grow(seen, 13, 500)), false},
		"the backup":                      {&backup, true},
		"as many marks after it":          {ptr(grow(backup, 20, 3)), true},
		"more marks after it":             {ptr(grow(backup, 20, 15)), true},
		"many marks, fewer than before":   {ptr(grow(grow(gone, 20, 3), 23, 9)), true},
		"no mark":                         {&gone, true},
		"a mark after an empty store":     {ptr(grow(gone, 20, 1)), true},
	} {
		assert.Equal(t, c.store.WentBackSince(&seen), c.want, "%s", name)
		assert.True(t, !c.store.WentBackSince(&gone), "%s: a process that has seen nothing notices nothing", name)
	}
}

func ptr[T any](v T) *T { return &v }

// TestAccept: what one process notices all others see in the store, until an operator accepts it;
// that holds for processes that look later, and not for the next time.
func TestAccept(t *testing.T) {
	t.Parallel()
	backup := grow(storemark.History{}, 0, 40)
	first := grow(backup, 40, 5)
	second := grow(first, 45, 1) // by another process
	store := backup.Next(&storemark.History{}, at(60))
	store = store.Next(&first, at(61))
	assert.Equal(t, []storemark.Mark{store.BackTo, store.Lost}, []storemark.Mark{backup.Last(), first.Last()}, "what is lost")
	assert.True(t, grow(store, 62, 40).Lost != 0, "marks do not end it")
	later := store.Next(&second, at(62))
	assert.Equal(t, []storemark.Mark{later.BackTo, later.Lost}, []storemark.Mark{backup.Last(), second.Last()}, "what is lost, by the other process")

	accepted := store.Accept(at(63))
	assert.Equal(t, []storemark.Mark{accepted.Lost, accepted.BackTo}, []storemark.Mark{0, 0}, "what is lost then")
	assert.True(t, accepted.Count > first.Count, "marks are %d, and were %d", accepted.Count, first.Count)
	assert.True(t, !accepted.WentBackSince(&first) && !accepted.WentBackSince(&second), "processes that look later")
	assert.Equal(t, accepted.Next(&second, at(64)).Lost, storemark.Mark(0), "the next mark of the other process")
	next := grow(accepted, 64, 3)
	assert.True(t, accepted.WentBackSince(&next), "the next time")
}

// TestMarksGrow: marks grow where clocks do not, and two histories that part have no mark in
// common.
func TestMarksGrow(t *testing.T) {
	t.Parallel()
	ahead := grow(storemark.History{}, 1000, 1)
	one, other := grow(ahead, 0, 5), grow(ahead, 0, 5)
	for i := range 5 {
		assert.True(t, one.Recent[i] > one.Recent[i+1], "marks: %v", one.Recent)
		for j := range 5 {
			assert.True(t, one.Recent[i] != other.Recent[j], "a mark of both: %v, %v", one.Recent, other.Recent)
		}
	}
}

// TestMarksAreApart: the marks in the record reach back for more than a minute, however many
// processes look and whatever the store's clock does, and a process that looks in that time sees
// that the store went back.
func TestMarksAreApart(t *testing.T) {
	t.Parallel()
	const processes = 200
	ahead := grow(storemark.History{}, 1000, 1)
	for i := range 52 {
		now := at(0).Add(time.Duration(i) * 5 * time.Second / processes)
		ahead = ahead.Next(&ahead, now)
		for range processes - 1 {
			before := ahead
			earlier := storemark.History{Count: before.Count - 1, Recent: before.Recent[1:]}
			ahead = ahead.Next(&earlier, now)
			assert.Equal(t, ahead.Count, before.Count, "marks while the clock is behind")
		}
	}
	var h storemark.History
	var seen [processes]storemark.History
	for i := range 40 * processes {
		now := at(0).Add(time.Duration(i) * 5 * time.Second / processes)
		h = h.Next(&seen[i%processes], now)
		seen[i%processes] = h
	}
	reach := h.Recent[0].Time().Sub(h.Recent[len(h.Recent)-1].Time())
	assert.True(t, reach >= 110*time.Second, "the marks reach back for %v", reach)
	for i := range seen {
		assert.True(t, !h.WentBackSince(&seen[i]), "process %d", i)
	}
	backup := seen[0]
	after := grow(backup, 45, 5)
	h = h.Next(&seen[1], at(44))
	assert.True(t, after.WentBackSince(&h), "the mark that is lost is noticed")
	noticed := after.Next(&h, at(49).Add(time.Millisecond))
	assert.True(t, noticed.Lost == h.Last() && noticed.Count > after.Count, "a loss is written at once: %+v", noticed)
}

// TestMarkFormat: the record is frozen, since another build reads it.
func TestMarkFormat(t *testing.T) {
	t.Parallel()
	h := storemark.History{Count: 7, Recent: []storemark.Mark{0x0a, 0x09}, Lost: 3, LostCount: 4, BackTo: 2, Accepted: 1}
	rec := storeapi.Record{State: storeapi.StateFailed, Fence: 5}
	req := h.Write(&rec, "shop", storeapi.Owner{1})
	text, err := req.Key.MarshalText()
	assert.NoError(t, err, "key")
	assert.Equal(t, string(text), "shop/mark//mark/last", "key")
	assert.Equal(t, hex.EncodeToString(req.Binding),
		"01"+"0000000000000007"+"0000000000000003"+"0000000000000004"+"0000000000000002"+"0000000000000001"+"000000000000000a"+"0000000000000009", "binding")
	f := req.Finish
	assert.Equal(t, []any{f.State, f.Cause, f.Answer.Codec, f.Answer.Body == nil, req.Retention, req.IfFence},
		[]any{storeapi.StateFailed, "mark", "none", true, storeapi.Forever, storeapi.Fence(5)}, "record")
	expiring := storeapi.Record{State: storeapi.StateFailed, Updated: at(0), Expires: at(720)}
	assert.Equal(t, h.Write(&expiring, "shop", storeapi.Owner{1}).Retention, time.Hour, "retention of a record that expires")
	rec.Cause, rec.Binding = "mark", req.Binding
	got, err := storemark.Read(&rec)
	assert.NoError(t, err, "read")
	assert.Equal(t, got, h, "what is read")
	full := grow(storemark.History{}, 0, 100)
	req = full.Write(&rec, "shop", storeapi.Owner{1})
	assert.True(t, len(req.Binding) <= 255, "a binding has %d bytes, and stores take 255", len(req.Binding))

	for name, change := range map[string]func(*storeapi.Record){
		"another state": func(r *storeapi.Record) { r.State = storeapi.StateCompleted }, "another cause": func(r *storeapi.Record) { r.Cause = "secret" },
		"no binding": func(r *storeapi.Record) { r.Binding = nil }, "a later version": func(r *storeapi.Record) { r.Binding = append([]byte{2}, r.Binding[1:]...) },
		"cut off": func(r *storeapi.Record) { r.Binding = r.Binding[:50] },
	} {
		r := rec
		change(&r)
		_, err := storemark.Read(&r)
		assert.ErrorIs(t, err, storemark.ErrRecord, "%s", name)
	}
}
