package storeapi

import (
	"context"
	"time"
)

// TxStore runs work in one database transaction together with the record of its key.
type TxStore[Tx any] interface {
	// RunTx begins a transaction, claims the key in it, runs work once, writes its answer into the
	// record and commits. StateCompleted commits effect and answer. StateFailed undoes the effect
	// and commits the answer. An error of work (or a panic) rolls everything back, and is returned
	// as it is.
	//
	// The record that RunTx returns has r.Owner if this call's work was committed. Otherwise it is
	// that of an earlier call, and work did not run. If work did not run, errors are those of
	// [Acquired.Err]. If the reply to COMMIT is lost, RunTx finds out what happened, or returns
	// [ErrUnconfirmed].
	RunTx(ctx context.Context, r TxRequest, work func(context.Context, Tx) (State, Answer, error)) (Record, error)
}

// TxRequest claims a key for one transaction.
type TxRequest struct {
	Key                  StoreKey
	Owner                Owner
	Fingerprint, Binding []byte
	Retention            time.Duration
	// Wait is how long to wait for another transaction that holds the key; negative: not at all.
	Wait time.Duration
	// Retries is how often the whole transaction is run again, work included, if the database has
	// rolled it back in favour of another one (a deadlock, a serialization failure) after work was
	// called. Before that it is run again in any case.
	Retries int
}

// StepStore stores the progress of an attempt in a transaction of the caller's work.
type StepStore[Tx any] interface {
	// StepTx begins a transaction on the database of the records, and runs work once in it if the
	// record belongs to r.Owner and r.Fence. It then renews the lease, stores the progress that
	// work has returned, as Extend does, and commits.
	//
	// An error of work (or a panic) rolls back, and is returned as it is. [ErrLeaseLost] means that
	// the record is not the caller's, or was not at the end; everything was rolled back.
	// [ErrTxEnded] means that work has ended the transaction itself. If the reply to COMMIT is
	// lost, the progress in the record decides what is returned, or the error is [ErrUnconfirmed].
	// Any other error means that nothing was committed.
	StepTx(ctx context.Context, r StepRequest, work func(context.Context, Tx) (Answer, error)) error
}

// StepRequest identifies the attempt that a transaction is for.
type StepRequest struct {
	Key   StoreKey
	Owner Owner
	Fence Fence
	Lease time.Duration
}
