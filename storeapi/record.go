package storeapi

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Owner is a random id made for one Begin. All its store calls carry it, repeated ones too, so a
// lost reply is harmless.
type Owner [16]byte

// State is the state of a record.
type State uint8

// The states of a record. A record that is in progress and has no lease left is in doubt; see
// [Record.InDoubt].
const (
	// StateIssued means that the server issued the key, and that it was not used yet.
	StateIssued State = iota + 1
	// StateInProgress means that an attempt runs, or ran and its outcome is unknown.
	StateInProgress
	// StateCompleted means that the work took effect. The answer is stored, or known to be too
	// large.
	StateCompleted
	// StateFailed means that a final refusal is stored.
	StateFailed
	// StateReleased means that the last attempt certainly did nothing. The next call runs.
	StateReleased
)

var stateNames = [...]string{"absent", "issued", "in-progress", "completed", "failed", "released"}

// String returns the state's name; the zero State is "absent".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state-%d", uint8(s))
}

// Finished reports whether s has an answer that duplicates get.
func (s State) Finished() bool { return s == StateCompleted || s == StateFailed }

// Answer is the answer that duplicates get. An empty Body and a nil Body differ.
type Answer struct {
	// Codec names the format of Body: "json", "raw", "message/http", …
	Codec string
	// Body is the answer. If the answer is not stored, Body is what the codec stores in its place
	// (HTTP: the head), or nil.
	Body []byte
	// Kept is false if the answer was too large to store or did not end.
	Kept bool
	// Size and Digest (SHA-256) are those of the whole answer. They are set if Kept is false.
	Size   int64
	Digest [sha256.Size]byte
}

// SealedPrefix begins the codec of an answer that is encrypted, before the codec of the answer
// itself. Package sealstore writes and opens it.
const SealedPrefix = "sealed/"

// Sealed reports whether Body is encrypted. A store of package sealstore returns a sealed answer if
// it cannot open it; any other store returns what is stored.
func (a *Answer) Sealed() bool { return strings.HasPrefix(a.Codec, SealedPrefix) }

// Worked names an attempt that may have had an effect.
type Worked struct {
	Attempt int
	Fence   Fence
}

// Record is what a store keeps for a key.
type Record struct {
	Key   StoreKey
	State State
	// Attempt counts how often the key was acquired. It is for people and retry limits, and never
	// proves ownership.
	Attempt int
	// Fence grows each time the key is acquired. Fence and Owner together prove ownership.
	Fence Fence
	Owner Owner
	// Asks is set while the attempt only asks for the outcome of earlier ones, or resolves them. It
	// has not worked.
	Asks bool
	// DoubtSince is when the doubt began: when the lease of the attempt ended or was given up,
	// whichever was first. It is also set while an attempt only asks about that doubt, and stays
	// when the attempt has no answer. Zero: there is no doubt.
	DoubtSince time.Time
	// Earlier are the attempts before this one that may have had an effect, oldest first; nil for a
	// finished record. At most 16 are kept: EarlierCut says that there were more.
	Earlier    []Worked
	EarlierCut bool
	// OnDoubt is the policy of the call that acquired the key.
	OnDoubt OnDoubt
	// Fingerprint distinguishes a duplicate from another request with the same key: a version byte
	// and a digest. It is nil if the call gave none.
	Fingerprint []byte
	// Binding is a keyed digest of the caller's credential, or nil.
	Binding []byte
	// Issued says that the server made the key.
	Issued bool
	// LeaseLeft is relative to Now. An attempt in progress with no lease left is in doubt.
	LeaseLeft time.Duration
	// Now is the store's clock when it answered. The other times are by the same clock. A zero
	// Expires means never.
	Now, Created, Updated, Expires time.Time
	// Answer is the answer that duplicates get. Before the attempt has ended it is what has been
	// done so far; see retrysafe.ProgressOf.
	Answer Answer
	// Cause is one word that says why the record is in doubt or released: timeout, panic, bound,
	// error, marked-in-part, steps-changed, input, nothing-done, unattended (nothing was done, and
	// no caller got that outcome), unanswered, resolved or attempts. The gateway's own are
	// not-sent, timeout, reset, truncated and garbage. An error with a method InDoubtCause can name
	// another; see retrysafe.Attempt.LeaveInDoubt. Cause is empty after a crash, when the lease
	// expired.
	Cause string
	// LastError is for operators. It is never sent to clients.
	LastError string
}

// MayHaveWorked returns all attempts that may have had an effect which the record does not know,
// oldest first; nil for a finished record. Under [Refuse] a released attempt has certainly done
// nothing.
func (r *Record) MayHaveWorked() []Worked {
	if r.State == StateInProgress && !r.Asks || r.State == StateReleased && !r.Asks && r.OnDoubt == Reexecute {
		return append(slices.Clip(r.Earlier), Worked{r.Attempt, r.Fence})
	}
	return r.Earlier
}

// InDoubt reports whether the work may have taken effect and its outcome is unknown: the record is
// in progress, and its lease has expired or was given up.
func (r *Record) InDoubt() bool { return r.State == StateInProgress && r.LeaseLeft <= 0 }

// Asked reports whether an attempt finds out the outcome of a record in doubt at the moment
// (AcquireRequest.Asks). It has a lease meanwhile, so InDoubt reports false.
func (r *Record) Asked() bool {
	return r.State == StateInProgress && r.LeaseLeft > 0 && !r.DoubtSince.IsZero()
}

// Age returns how long the doubt about the record has lasted, or without a doubt how long ago the
// record changed. It is zero while the store's clock is before that, since it was set back.
func (r *Record) Age() time.Duration {
	since := r.DoubtSince
	if since.IsZero() {
		since = r.Updated
	}
	return max(0, r.Now.Sub(since))
}

// Fence is the fencing token: for one key it only ever grows, through release, takeover, expiry and
// re-creation. Pass it to the resource that the work writes to, and let the resource refuse a
// smaller one. Then a holder that was paused past its lease cannot do harm. See Kleppmann, "How to
// do distributed locking" (2016). Values stay below 2^53 until the year 2255.
type Fence uint64

// Forever is a retention that never ends.
const Forever time.Duration = math.MaxInt64

// MaxStored is the largest answer that every store accepts, in bytes: 1 MiB for a body and 64 KiB
// for what is stored with it.
const MaxStored = 1<<20 + 64<<10
