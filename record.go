package retrysafe

import "github.com/retrysafe/retrysafe/storeapi"

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
