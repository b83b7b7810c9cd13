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
	// Finish, if it is not nil, finishes the claim in the same step, so that no process can leave
	// it half done. It is for values that are kept as records, such as the data keys of sealstore:
	// with IfFence the old value is there until the new one is. The claim is granted only if the
	// key has no record, or if its record has the fence IfFence and is not completed; otherwise the
	// answer is [StatusFenceChanged] or [StatusFinished]. The record has the fingerprint and the
	// binding of this request, and its retention counts from now.
	Finish *Finish
}

// Finish is the outcome of a claim that is finished as it is made.
type Finish struct {
	// State is StateCompleted or StateFailed. A completed record is never replaced.
	State  State
	Answer Answer
	// Cause is stored in the record.
	Cause string
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
