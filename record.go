package retrysafe

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// Owner is a random id made for one Begin. All repeats of its store calls carry it, so that a lost
// reply is harmless.
type Owner [16]byte

// State is what a record says of its key.
type State uint8

// The states of a record. A record that is in progress and has no lease left is in doubt; see
// [Record.InDoubt].
const (
	// StateIssued: the key was issued by the server and not used yet.
	StateIssued State = iota + 1
	// StateInProgress: an attempt runs, or ran and nobody knows what became of it.
	StateInProgress
	// StateCompleted: it happened; the answer is kept (or known to be too large).
	StateCompleted
	// StateFailed: a final refusal is kept.
	StateFailed
	// StateReleased: the last attempt certainly did nothing; the next call runs.
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

// Finished tells whether s has an answer that repeats are given.
func (s State) Finished() bool { return s == StateCompleted || s == StateFailed }

// Answer is what repeats are given. Empty and nil bodies are told apart.
type Answer struct {
	// Codec names the form of Body: "json", "raw", "message/http", …
	Codec string
	// Body is the answer; of one that is not kept, what the codec keeps in its place (HTTP: the
	// head), or nil.
	Body []byte
	// Kept is false where the answer was too large to keep or did not end.
	Kept bool
	// Size and Digest (SHA-256) are those of the whole answer. They are set where Kept is false.
	Size   int64
	Digest [sha256.Size]byte
}

// Worked names an attempt that may have had an effect.
type Worked struct {
	Attempt int
	Fence   Fence
}

// Record is what a store knows of a key.
type Record struct {
	Key   StoreKey
	State State
	// Attempt counts the wins: for people and retry limits, never for ownership.
	Attempt int
	// Fence grows with every win; with Owner it is the ownership.
	Fence Fence
	Owner Owner
	// Asks is set while the attempt only asks what became of the ones before it, or settles them:
	// it has not worked.
	Asks bool
	// Earlier are the attempts before this one that may have had an effect, oldest first; nil of a
	// finished record. At most 16 are kept: EarlierCut says that there were more.
	Earlier    []Worked
	EarlierCut bool
	// OnDoubt is the policy of the call that won.
	OnDoubt OnDoubt
	// Fingerprint tells a repeat from another request with the same key: a version byte and a
	// digest. Nil where the call gave none.
	Fingerprint []byte
	// Binding is a keyed digest of the caller's credential, or nil.
	Binding []byte
	// Issued: the key was made by the server.
	Issued bool
	// LeaseLeft is relative to Now. An attempt in progress with nothing left is in doubt.
	LeaseLeft time.Duration
	// Now is the store's clock when it answered; the other times are of the same clock. A zero
	// Expires means never.
	Now, Created, Updated, Expires time.Time
	// Answer is what repeats are given. Before the end it is what the attempt has done so far; see
	// [Record.Progress].
	Answer Answer
	// Cause is one word on why the record is in doubt or released: timeout panic bound error
	// nothing-done unattended (nothing done, and no caller was told) unanswered resolved attempts;
	// the gateway's own are not-sent timeout reset truncated garbage. Empty after a crash, when the
	// lease lapsed.
	Cause string
	// LastError is for operators and never sent to clients.
	LastError string
}

// MayHaveWorked are all attempts that may have had an effect that the record does not know of,
// oldest first; nil once it is finished. Under [Refuse] an attempt that was released has certainly
// done nothing.
func (r *Record) MayHaveWorked() []Worked {
	if r.State == StateInProgress && !r.Asks || r.State == StateReleased && !r.Asks && r.OnDoubt == Reexecute {
		return append(slices.Clip(r.Earlier), Worked{r.Attempt, r.Fence})
	}
	return r.Earlier
}

// InDoubt tells whether the work may have taken effect and nobody knows: in progress, and the lease
// has passed or was given up.
func (r *Record) InDoubt() bool { return r.State == StateInProgress && r.LeaseLeft <= 0 }

// Fence is the fencing token: for one key it only ever grows, through release, takeover, expiry and
// re-creation. Give it to the resource that the work writes to and let it refuse a smaller one;
// then a holder that was paused past its lease cannot do harm. See Kleppmann, "How to do
// distributed locking" (2016). Values stay below 2^53 until the year 2255.
type Fence uint64

// MaxStored is the largest answer that every store takes, in bytes: 1 MiB for a body and 64 KiB for
// what stands around it.
const MaxStored = 1<<20 + 64<<10
