// Package protocol is the state machine of a record: pure functions that take a record and a
// request and return the next record and the answer. Every store that decides in Go uses it, so the
// table of docs/architecture.md is implemented in one place.
package protocol

import (
	"math"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Micros is a time or a duration of the store in microseconds; times count from the Unix epoch.
type Micros = int64

// forever is a duration that never ends.
const forever = math.MaxInt64 / int64(time.Microsecond)

// Row is a record as a store keeps it, with absolute times of the store's clock. The zero Row is an
// absent record.
type Row struct {
	State   storeapi.State
	OnDoubt storeapi.OnDoubt
	Issued  bool
	Attempt int
	Fence   storeapi.Fence
	Owner   storeapi.Owner
	// Asks, Earlier and EarlierCut are as in [storeapi.Record].
	Asks, EarlierCut bool
	// DoubtBegan is when the doubt began that an attempt with Asks is about, or that of an attempt
	// which was put in doubt after its lease had ended. Zero: there is none, or it began when this
	// attempt ended.
	DoubtBegan           Micros
	Earlier              []storeapi.Worked
	Fingerprint, Binding []byte
	// LeaseEnd is zero unless the record is in progress. It is also zero after the attempt was put
	// in doubt at once.
	LeaseEnd Micros
	// Expires is zero for a record that only a person removes.
	Expires, Created, Updated Micros
	// Retention is from the successful Acquire; NotAfter is the last one of it and its repeated
	// calls.
	NotAfter, Retention Micros
	// Answer is the progress until the record is finished.
	Answer           storeapi.Answer
	Cause, LastError string
}

// Expired reports whether the record counts as absent. The fence of an expired row still is a lower
// bound for the next one.
func (r *Row) Expired(now Micros) bool { return r.Expires != 0 && now >= r.Expires }

// Absent reports whether there is no record to answer from.
func (r *Row) Absent(now Micros) bool { return r.State == 0 || r.Expired(now) }

// InDoubt is like [storeapi.Record.InDoubt].
func (r *Row) InDoubt(now Micros) bool {
	return r.State == storeapi.StateInProgress && r.LeaseEnd <= now
}

// Doubtful reports whether [storeapi.ListRequest].Asked selects the row: it is in doubt, or an
// attempt finds out the outcome.
func (r *Row) Doubtful(now Micros) bool {
	return r.State == storeapi.StateInProgress && r.doubtSince(now) != 0
}

// doubtSince returns when the doubt about a row in progress began, or zero.
func (r *Row) doubtSince(now Micros) Micros {
	switch {
	case r.DoubtBegan != 0:
		return r.DoubtBegan
	case !r.InDoubt(now):
		return 0
	case r.isPutInDoubt():
		return r.Updated
	}
	return r.LeaseEnd
}

func (r *Row) isPutInDoubt() bool { return r.State == storeapi.StateInProgress && r.LeaseEnd == 0 }

// HasProgress reports whether an unfinished row has stored progress;
// [storeapi.ListRequest].Progress selects such rows.
func (r *Row) HasProgress() bool { return r.isUnfinished() && r.Answer.Codec != "" }

// isUnfinished reports whether an attempt may have stored progress in place of the answer.
func (r *Row) isUnfinished() bool {
	return r.State == storeapi.StateInProgress || r.State == storeapi.StateReleased
}

func (r *Row) isHeldBy(owner storeapi.Owner, fence storeapi.Fence) bool {
	return r.Owner == owner && r.Fence == fence
}

// Record returns the row as callers see it. For an absent row it has only the key and Now.
func (r *Row) Record(key storeapi.StoreKey, now Micros) storeapi.Record {
	rec := storeapi.Record{Key: key, Now: Time(now)}
	if r.Absent(now) {
		return rec
	}
	rec.State, rec.OnDoubt, rec.Issued = r.State, r.OnDoubt, r.Issued
	rec.Attempt, rec.Fence, rec.Owner = r.Attempt, r.Fence, r.Owner
	rec.Asks, rec.Earlier, rec.EarlierCut = r.Asks, r.Earlier, r.EarlierCut
	rec.Fingerprint, rec.Binding = r.Fingerprint, r.Binding
	rec.Created, rec.Updated = Time(r.Created), Time(r.Updated)
	rec.Answer, rec.Cause, rec.LastError = r.Answer, r.Cause, r.LastError
	if r.State == storeapi.StateInProgress {
		rec.LeaseLeft = max(0, time.Duration(r.LeaseEnd-now)*time.Microsecond)
		if r.DoubtBegan != 0 || r.LeaseEnd <= now {
			rec.DoubtSince = Time(r.doubtSince(now))
		}
	} else if r.Expires != 0 {
		rec.Expires = Time(r.Expires)
	}
	return rec
}

// renewLease sets the lease. Under Refuse only a person removes the record while it is in progress.
// Under Reexecute its retention starts at the end of the lease, if no call comes.
func (r *Row) renewLease(now, lease Micros) {
	r.LeaseEnd = now + lease
	r.Updated = now
	r.Expires = 0
	if r.OnDoubt == storeapi.Reexecute {
		r.Expires = expiryAfter(r.LeaseEnd, r.Retention)
	}
}

// startRetention starts the retention.
func (r *Row) startRetention(now, retention Micros) {
	if retention == 0 {
		retention = r.Retention
	}
	r.LeaseEnd, r.Updated, r.Retention = 0, now, retention
	r.Expires = expiryAfter(now, retention)
}

// Time converts m to a time, in UTC.
func Time(m Micros) time.Time { return time.UnixMicro(m).UTC() }

// ToMicros converts d to microseconds, rounded up, so that a positive duration never becomes zero.
func ToMicros(d time.Duration) Micros {
	if d > storeapi.Forever-time.Microsecond {
		return forever // rounding up would overflow
	}
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// expiryAfter returns now + d as an expiry: zero (never) if d has no end or the sum would overflow.
func expiryAfter(now, d Micros) Micros {
	if d >= forever-now {
		return 0
	}
	return now + d
}

// clipText limits texts for operators, so that they cannot make a record too large.
func clipText(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// Clip limits the length of a record's texts for people.
func Clip(cause, lastError string) (string, string) {
	return clipText(cause, maxCause), clipText(lastError, maxLastError)
}

const (
	maxCause     = 32
	maxLastError = 1024
)
