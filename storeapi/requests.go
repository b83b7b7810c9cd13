package storeapi

import "time"

// AcquireRequest asks for the right to run the work of a key.
type AcquireRequest struct {
	Key StoreKey
	// Owner is made once per Begin. Repeated calls carry the same one.
	Owner Owner
	// Fingerprint and Binding are compared with the record's if both have one; see [Record].
	Fingerprint, Binding []byte
	Lease, Retention     time.Duration
	// NotAfter is the store's time after which the request must not be applied; zero: no limit.
	NotAfter time.Time
	OnDoubt  OnDoubt
	// IfFence makes this a compare-and-set: it acquires the key only if the record still has this
	// fence (to resolve or redrive). Zero means off.
	IfFence Fence
	// Force lets IfFence acquire the key under a live lease too.
	Force bool
	// MustBeIssued refuses keys that the server has not issued.
	MustBeIssued bool
	// Asks says that the caller asks for the outcome of earlier attempts, or resolves them, and
	// does no work; see [Record].Asks. If it does work after that, it begins with an Extend with
	// Works.
	Asks bool
	// Copy, if it is not nil, is the record of this key that another store has. It is for callers
	// that keep a key in several stores. If the store grants the request, its record continues that
	// one: all fields are those of Copy, except Owner, Fence and the lease, which are those of this
	// request. So the attempt number and Created, and with them Attempt.KeyFor, stay.
	//
	// If Copy is completed, failed or released, the new record is so too, for as long as Copy has
	// until it expires. Such a copy is made only if the key has no record, or has the fence
	// IfFence; otherwise the answer is [StatusFenceChanged].
	Copy *Record
	// MinFence is the least fence of a new claim. If the holder of the key repeats its call, it
	// gets the fence that it has. It is for callers that keep a key in several stores, whose clocks
	// differ. Zero leaves the fence to the store.
	MinFence Fence
	// Until is a second limit like NotAfter, for callers that pass a request on and may do so for a
	// limited time only. It is not stored.
	Until time.Time
}

// Limit returns the earlier of NotAfter and Until: the store's time after which the request must
// not be applied. Zero means no limit.
func (r *AcquireRequest) Limit() time.Time {
	if r.NotAfter.IsZero() || !r.Until.IsZero() && r.Until.Before(r.NotAfter) {
		return r.Until
	}
	return r.NotAfter
}

// ExtendRequest asks for a new lease from now on.
type ExtendRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	Lease time.Duration
	// Works says that the work begins under an attempt that was acquired with Asks: from now on it
	// may have had an effect.
	Works bool
	// Progress, if it is not nil, is what has been done so far. It is stored in the same step as
	// the lease, as the Answer of the record, which has no other until its attempt has ended. Its
	// Codec is not empty. Its Size is its place in an order that continues from attempt to attempt.
	// If the Size is not above that of the record's progress, the call was repeated or came late:
	// the lease is renewed, and the stored progress stays.
	//
	// The next attempt that acquires the record finds it, after an expired lease, a Release or a
	// doubt. A record with progress keeps its fingerprint and binding when it is released. Complete
	// replaces the progress.
	Progress *Answer
}

// CompleteRequest ends an attempt with an answer.
type CompleteRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	// State is StateCompleted or StateFailed.
	State  State
	Answer Answer
	// Retention is counted from now. Zero means the one given to Acquire.
	Retention time.Duration
	// Quiet says that no caller is expected to wait for the end, so a [Notifier] need not report
	// it.
	Quiet bool
}

// ReleaseRequest ends an attempt without an answer.
type ReleaseRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	// Retention is counted from now. Zero means the one given to Acquire.
	Retention time.Duration
	// InDoubt says that the work may have taken effect: the lease ends now and the record stays in
	// progress.
	InDoubt bool
	// Quiet is as in [CompleteRequest].
	Quiet bool
	// Cause and LastError are stored in the record.
	Cause, LastError string
}

// IssueRequest makes a key whose first use must come within Retention.
type IssueRequest struct {
	Key       StoreKey
	Owner     Owner
	Retention time.Duration
}
