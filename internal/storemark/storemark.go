// Package storemark holds the rules by which processes see that a store went back to an older
// state, such as a restored backup: a record of each namespace with the marks that they leave.
// docs/formats.md describes it.
package storemark

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Layer is the layer of the record.
const Layer = "mark"

// cause is the cause of the record. It also tells what the record is.
const cause = "mark"

const (
	formatVersion = 1
	// most is the most marks that the record names. Where processes look every five seconds they
	// are those of the last two minutes.
	most       = 24
	headerSize = 1 + 8*5
)

// Key returns the key of the record of a namespace.
func Key(namespace string) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: namespace, Layer: Layer, Key: storeapi.Key{Operation: "mark", ID: "last"}}
}

// Mark is one mark: the microseconds since 1970 at which a process made it, or more if the mark
// before it was ahead. Marks of a namespace grow, and two histories of a store have none in common
// after they parted.
type Mark int64

// Time returns when the mark was made, by the store's clock.
func (m Mark) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(m))
}

// History is what the record has.
type History struct {
	// Count is how many marks there were. It is smaller only if the store went back.
	Count uint64
	// Recent are the last marks, newest first.
	Recent []Mark
	// Lost is the newest mark that a process had seen and that the store has not, and LostCount
	// its Count. Zero: the store did not go back, or an operator has accepted it.
	Lost      Mark
	LostCount uint64
	// BackTo is the newest mark before those that are lost.
	BackTo Mark
	// Accepted is the newest mark when an operator accepted that the store went back. All marks up
	// to it may be missing.
	Accepted Mark
}

// Last returns the newest mark, or zero.
func (h *History) Last() Mark {
	if len(h.Recent) == 0 {
		return 0
	}
	return h.Recent[0]
}

// WentBackSince reports whether h is the history of a store that has forgotten the newest mark of
// seen, and no operator has accepted that. A process that has not looked for as long as h names
// marks sees it only by the count.
func (h *History) WentBackSince(seen *History) bool {
	last := seen.Last()
	switch {
	case last == 0, slices.Contains(h.Recent, last), last <= h.Accepted:
		return false
	case last > h.Last(), h.Count < seen.Count:
		return true
	}
	return len(h.Recent) < most || last > h.Recent[most-1]
}

// Next returns the history that a process writes at a time of the store, if it has seen another
// history before: with one more mark if there is none since, so that marks are as far apart as the
// looks of one process, however many there are, and whatever the clock does. If the store went back
// since, it says so to all processes.
func (h *History) Next(seen *History, now time.Time) History {
	next := *h
	if h.WentBackSince(seen) {
		if next.Lost == 0 {
			next.BackTo = h.lastBefore(seen)
		}
		if seen.Last() > next.Lost {
			next.Lost, next.LostCount = seen.Last(), max(seen.Count, next.LostCount)
		}
	}
	if len(h.Recent) == 0 || h.Last() == seen.Last() || next.Lost != h.Lost {
		next.addMark(seen.Last(), now)
	}
	return next
}

// addMark adds a mark that is newer than another one.
func (h *History) addMark(than Mark, now time.Time) {
	mark, floor := Mark(now.UnixMicro()), max(h.Last(), h.Lost, h.Accepted, than)
	if mark <= floor {
		// Not the next number, which another history could choose too.
		mark = floor + 1 + Mark(rand.Int64N(int64(time.Second/time.Microsecond))) //nolint:gosec // it has to differ, not to be a secret
	}
	h.Count++
	h.Recent = append([]Mark{mark}, h.Recent[:min(len(h.Recent), most-1)]...)
}

// lastBefore returns the newest mark that h has of a history that it has lost a part of. The marks
// after it are those of processes that began later. It is 1 if h has none.
func (h *History) lastBefore(lost *History) Mark {
	oldest := lost.Recent[len(lost.Recent)-1]
	for _, m := range h.Recent {
		if m < oldest || slices.Contains(lost.Recent, m) {
			return m
		}
	}
	return 1
}

// Accept returns the history in which an operator has accepted what is lost. Processes that have
// not looked since the store went back have seen no newer mark than h has, so they need not report
// it once more.
func (h *History) Accept(now time.Time) History {
	next := *h
	next.addMark(0, now)
	next.Accepted = h.Last()
	next.Count = max(next.Count, h.LostCount+1)
	next.Lost, next.LostCount, next.BackTo = 0, 0, 0
	return next
}

// ErrRecord means that the record has another form than this build writes.
var ErrRecord = errors.New("the record with the marks of the store cannot be read by this build, or the store keeps no bindings; update this program, or look at the record with \"retrysafe keys list --layer mark\"")

// Read returns the history of a record; that of an absent one is empty.
func Read(rec *storeapi.Record) (h History, err error) {
	if rec.State == 0 {
		return h, nil
	}
	b := rec.Binding
	if rec.State != storeapi.StateFailed || rec.Cause != cause || len(b) < headerSize+8 || (len(b)-headerSize)%8 != 0 || b[0] != formatVersion {
		return h, ErrRecord
	}
	number := func(i int) uint64 { return binary.BigEndian.Uint64(b[1+8*i:]) }
	mark := func(i int) Mark { return Mark(number(i)) } //nolint:gosec // as it was written
	h = History{Count: number(0), Lost: mark(1), LostCount: number(2), BackTo: mark(3), Accepted: mark(4)}
	for i := range (len(b) - headerSize) / 8 {
		h.Recent = append(h.Recent, mark(5+i))
	}
	return h, nil
}

// Write returns the call that writes h in place of rec, which is the record that was found. As with
// the check value of the secret, the claim is finished as it is made, and the history is the
// binding of the record, which sealstore does not seal. The record is kept for ever, unless rec
// expires: then it keeps that retention, as in a demonstration on a store of its user.
func (h *History) Write(rec *storeapi.Record, namespace string, owner storeapi.Owner) storeapi.AcquireRequest {
	b := append(make([]byte, 0, headerSize+8*most), formatVersion)
	for _, n := range append([]Mark{Mark(h.Count), h.Lost, Mark(h.LostCount), h.BackTo, h.Accepted}, h.Recent...) { //nolint:gosec // counts stay below 2^63
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // marks are not negative
	}
	req := storeapi.AcquireRequest{
		Key: Key(namespace), Owner: owner, Lease: time.Second, Retention: storeapi.Forever, OnDoubt: storeapi.Refuse,
		Binding: b, Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: "none"}, Cause: cause},
	}
	if rec.State != 0 {
		req.IfFence = rec.Fence
	}
	if rec.State != 0 && !rec.Expires.IsZero() {
		req.Retention = rec.Expires.Sub(rec.Updated)
	}
	return req
}
