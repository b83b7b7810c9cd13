package storeapi

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Owner is a random id made for one Begin. All its store calls carry it, repeated ones too.
type Owner [16]byte

// State is the state of a record.
type State uint8

// The states of a record.
const (
	StateIssued     State = iota + 1 // the server issued the key, and it was not used yet
	StateInProgress                  // an attempt runs, or ran and its outcome is unknown
	StateCompleted                   // the work took effect
	StateFailed                      // a final refusal is stored
	StateReleased                    // the last attempt certainly did nothing; the next call runs
)

var stateNames = [...]string{"absent", "issued", "in-progress", "completed", "failed", "released"}

// String returns the state's name.
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

// SealedPrefix begins the codec of an answer that package sealstore has encrypted.
const SealedPrefix = "sealed/"

// Sealed reports whether Body is encrypted.
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
	// Attempt counts how often the key was acquired, for people and retry limits.
	Attempt int
	// Fence and Owner together prove ownership.
	Fence Fence
	Owner Owner
	// Asks is set while the attempt only asks for the outcome of earlier ones, or resolves them.
	Asks bool
	// DoubtSince is when the doubt began (S21). Zero: there is no doubt.
	DoubtSince time.Time
	// Earlier are the attempts before this one that may have had an effect, oldest first; nil for a
	// finished record. EarlierCut says that there were more (S20).
	Earlier    []Worked
	EarlierCut bool
	// OnDoubt is the policy of the call that acquired the key.
	OnDoubt OnDoubt
	// Fingerprint is a version byte and a digest of the request, or nil.
	Fingerprint []byte
	// Binding is a keyed digest of the caller's credential, or nil.
	Binding []byte
	// Issued says that the server made the key.
	Issued bool
	// LeaseLeft is relative to Now.
	LeaseLeft time.Duration
	// Now is the store's clock when it answered. The other times are by the same clock. A zero
	// Expires means never.
	Now, Created, Updated, Expires time.Time
	// Answer is the answer that duplicates get. Before the attempt has ended it is what has been
	// done so far.
	Answer Answer
	// Cause is one word that says why the record is in doubt or released; docs/console.md has the
	// words. It is empty after a crash, when the lease expired.
	Cause string
	// LastError is for operators alone.
	LastError string
}

// CauseCrash stands for the empty Cause of a record in doubt: its process died, or was cut off.
const CauseCrash = "crash"

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

// Asked reports whether an attempt finds out the outcome of a record in doubt
// (AcquireRequest.Asks). InDoubt reports false meanwhile.
func (r *Record) Asked() bool {
	return r.State == StateInProgress && r.LeaseLeft > 0 && !r.DoubtSince.IsZero()
}

// Age returns how long the doubt about the record has lasted, or without a doubt how long ago the
// record changed. It is zero if the store's clock was set back before that.
func (r *Record) Age() time.Duration {
	since := r.DoubtSince
	if since.IsZero() {
		since = r.Updated
	}
	return max(0, r.Now.Sub(since))
}

// Fence is the fencing token: for one key it only ever grows, through release, takeover, expiry and
// re-creation. Values stay below 2^53 until the year 2255.
type Fence uint64

// Forever is a retention that never ends.
const Forever time.Duration = math.MaxInt64

// MaxStored is the largest answer that every store accepts, in bytes: 1 MiB for a body and 64 KiB
// for what is stored with it.
const MaxStored = 1<<20 + 64<<10
