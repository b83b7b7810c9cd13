package retrysafe

import (
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Record is what the store keeps for a key: its state, attempts, fence, lease, answer and cause.
// Its methods InDoubt and MayHaveWorked say what is unknown; [ProgressOf] returns what the call has
// done so far.
type Record = storeapi.Record

// State is the state of a record. Its method Finished reports whether duplicates get an answer.
type State = storeapi.State

// The states of a record. A record that is in progress and has no lease left is in doubt.
const (
	// StateIssued means that the server issued the key, and that it was not used yet.
	StateIssued = storeapi.StateIssued
	// StateInProgress means that an attempt runs, or ran and its outcome is unknown.
	StateInProgress = storeapi.StateInProgress
	// StateCompleted means that the work took effect. The answer is stored, or known to be too
	// large.
	StateCompleted = storeapi.StateCompleted
	// StateFailed means that a final refusal is stored.
	StateFailed = storeapi.StateFailed
	// StateReleased means that the last attempt certainly did nothing. The next call runs.
	StateReleased = storeapi.StateReleased
)

// Fence is the fencing token: for one key it only ever grows, through release, takeover, expiry and
// re-creation. Pass it to the resource that the work writes to, and let the resource refuse a
// smaller one. Then a holder that was paused past its lease cannot do harm. See Kleppmann, "How to
// do distributed locking" (2016). Values stay below 2^53 until the year 2255.
type Fence = storeapi.Fence

// MaxPart is the maximum length of one part of a key, in bytes. A longer part is refused with
// [ErrInvalidKey] and never truncated: a truncated key would make two payments one. Pass values
// that may be longer, such as a path or a message id, through [KeyPart].
const MaxPart = storeapi.MaxPart

// Key identifies a call by who makes it (Tenant), which operation it is for (Operation), and which
// call it is (ID). All three are strings of any bytes, with at most [MaxPart] of them:
//
//	k := retrysafe.Key{Tenant: "shop-7", Operation: "charge", ID: r.Header.Get("Idempotency-Key")}
//
// Tenant keeps one caller from reading another's answer; it may be empty if there is only one. ID
// is the client's key, a message id, or a digest of business parameters. A key may be a secret, so
// its String and LogValue show only the operation.
type Key = storeapi.Key

// KeyPart returns s as a part of a key, however long it is: s itself if it has at most [MaxPart]
// bytes, otherwise its digest "~sha256.<hex>". A short s that itself looks like such a digest is
// digested too, so that no caller can name the digest of another's value.
func KeyPart(s string) string { return keytext.FitPart(s) }

// Causes of records that are in doubt or released, besides those that [Attempt.LeaveInDoubt] sets.
// See [Record].Cause.
const (
	causeAttempts    = "attempts"     // too many attempts for a worker
	causeResolved    = "resolved"     // resolved by an operator
	causeUnattended  = "unattended"   // released, and no caller got that outcome
	causeUnanswered  = "unanswered"   // a claim whose reply was lost, given back
	causeNothingDone = "nothing-done" // released, and its caller got that outcome
)
