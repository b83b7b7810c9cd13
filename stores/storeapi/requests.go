package storeapi

import "time"

// AcquireRequest asks for the right to run the work of a key.
type AcquireRequest struct {
	Key                  StoreKey
	Owner                Owner
	Fingerprint, Binding []byte
	Lease, Retention     time.Duration
	// NotAfter is the store's time after which the request must not be applied; zero: no limit.
	NotAfter time.Time
	OnDoubt  OnDoubt
	// IfFence makes this a compare-and-set: it acquires the key only if the record still has this
	// fence. Zero means off.
	IfFence Fence
	// Force lets IfFence acquire the key under a live lease too.
	Force bool
	// MustBeIssued refuses keys that the server has not issued.
	MustBeIssued bool
	// Asks says that the caller asks for the outcome of earlier attempts, or resolves them. It does
	// no work before an Extend with Works.
	Asks bool
	// Finish, if it is not nil, finishes the claim in the same step (S22). A record that has not
	// the fence IfFence gives [StatusFenceChanged], and a completed one [StatusFinished]. The new
	// record has the fingerprint and the binding of this request, and its retention counts from
	// now.
	Finish *Finish
}

// Finish is the outcome of a claim that is finished as it is made.
type Finish struct {
	// State is StateCompleted or StateFailed.
	State  State
	Answer Answer
	Cause  string
}

// ExtendRequest asks for a new lease from now on.
type ExtendRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	Lease time.Duration
	// Works says that the work begins under an attempt that was acquired with Asks (S20).
	Works bool
	// Progress, if it is not nil, is what has been done so far. It is stored as the Answer of the
	// unfinished record (S19). Its Codec is not empty. Its Size is its place in an order that
	// continues from attempt to attempt. If the Size is not above that of the record's progress,
	// the lease is renewed, and the stored progress stays.
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
	// Quiet says that a [Notifier] need not report the end, since no caller is expected to wait.
	Quiet bool
}

// ReleaseRequest ends an attempt without an answer.
type ReleaseRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	// Retention and Quiet are as in [CompleteRequest].
	Retention time.Duration
	Quiet     bool
	// InDoubt says that the work may have taken effect: the lease ends now and the record stays in
	// progress.
	InDoubt bool
	// Cause and LastError are stored in the record.
	Cause, LastError string
}

// ForgetRequest removes from a finished record what tells of a person.
type ForgetRequest struct {
	Key StoreKey
	// Fence is that of the record that was looked at. If it has changed since, nothing happens.
	Fence Fence
}

// IssueRequest makes a key whose first use must come within Retention.
type IssueRequest struct {
	Key       StoreKey
	Owner     Owner
	Retention time.Duration
}
