// Package protocol is the record's state machine: pure functions from a record and a request to the
// next record and the answer. Every store that decides in Go uses it, so that the table of
// docs/design.md stands in one place.
package protocol

import (
	"math"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Micros is a point or a span of the store's time in microseconds; points count from the Unix
// epoch.
type Micros = int64

// forever is a span that never ends.
const forever = math.MaxInt64 / int64(time.Microsecond)

// Row is a record as a store keeps it: times absolute, on the store's clock. The zero Row is an
// absent record.
type Row struct {
	State   retrysafe.State
	OnDoubt retrysafe.OnDoubt
	Issued  bool
	Attempt int
	Fence   retrysafe.Fence
	Owner   retrysafe.Owner
	// Asks, Earlier and EarlierCut are as in [retrysafe.Record].
	Asks, EarlierCut     bool
	Earlier              []retrysafe.Worked
	Fingerprint, Binding []byte
	// LeaseEnd is zero unless the record is in progress, and zero there once the attempt was given
	// up (put in doubt at once).
	LeaseEnd Micros
	// Expires is zero for a record that nothing but a person removes.
	Expires, Created, Updated Micros
	// Retention is that of the Acquire that won; NotAfter is the last of it and its repeats.
	NotAfter, Retention Micros
	// Answer is the progress while the record is not finished.
	Answer           retrysafe.Answer
	Cause, LastError string
}

// Expired tells whether the record counts as absent. The fence of an expired row still bounds the
// next one from below.
func (r *Row) Expired(now Micros) bool { return r.Expires != 0 && now >= r.Expires }

// Absent tells whether there is nothing to answer from.
func (r *Row) Absent(now Micros) bool { return r.State == 0 || r.Expired(now) }

// InDoubt is like [retrysafe.Record.InDoubt].
func (r *Row) InDoubt(now Micros) bool {
	return r.State == retrysafe.StateInProgress && r.LeaseEnd <= now
}

func (r *Row) abandoned() bool { return r.State == retrysafe.StateInProgress && r.LeaseEnd == 0 }

// HasProgress is what [retrysafe.ListRequest].Progress selects.
func (r *Row) HasProgress() bool { return r.unfinished() && r.Answer.Codec != "" }

// unfinished tells whether an attempt may have left progress in the place of the answer.
func (r *Row) unfinished() bool {
	return r.State == retrysafe.StateInProgress || r.State == retrysafe.StateReleased
}

func (r *Row) hasProgress() bool { return r.unfinished() && r.Answer.Codec != "" }

func (r *Row) holds(owner retrysafe.Owner, fence retrysafe.Fence) bool {
	return r.Owner == owner && r.Fence == fence
}

// Record is the row as callers see it. An absent row gives a record with nothing but the key and
// Now.
func (r *Row) Record(key retrysafe.StoreKey, now Micros) retrysafe.Record {
	if r.Absent(now) {
		return retrysafe.Record{Key: key, Now: Time(now)}
	}
	rec := retrysafe.Record{
		Key: key, State: r.State, Attempt: r.Attempt, Fence: r.Fence, Owner: r.Owner, OnDoubt: r.OnDoubt,
		Asks: r.Asks, Earlier: r.Earlier, EarlierCut: r.EarlierCut,
		Fingerprint: r.Fingerprint, Binding: r.Binding, Issued: r.Issued, Now: Time(now),
		Created: Time(r.Created), Updated: Time(r.Updated), Answer: r.Answer, Cause: r.Cause, LastError: r.LastError,
	}
	if r.State == retrysafe.StateInProgress {
		rec.LeaseLeft = max(0, time.Duration(r.LeaseEnd-now)*time.Microsecond)
	} else if r.Expires != 0 {
		rec.Expires = Time(r.Expires)
	}
	return rec
}

// Time is the point that m names, in UTC.
func Time(m Micros) time.Time { return time.UnixMicro(m).UTC() }

// Span rounds d up to microseconds, so that a positive duration never becomes zero.
func Span(d time.Duration) Micros {
	if d > retrysafe.Forever-time.Microsecond {
		return forever // rounding up would have no room
	}
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// after is now + d as an expiry: zero (never) where d has no end or the sum has no room.
func after(now, d Micros) Micros {
	if d >= forever-now {
		return 0
	}
	return now + d
}

// clip keeps operators' texts from growing a record without bound.
func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// Clip keeps what a record says to people within its bounds.
func Clip(cause, lastError string) (string, string) {
	return clip(cause, maxCause), clip(lastError, maxLastError)
}

const (
	maxCause     = 32
	maxLastError = 1024
)
