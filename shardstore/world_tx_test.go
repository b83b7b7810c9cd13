//go:build !race

package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
)

// locks are the locks of the transactions on one shard: the row of the key, and how many
// transactions share the record of the maps.
type locks struct{ key, shared int }

func (w *world) hasTx() bool { return strings.Contains(w.config.ends, "t") }

// within reports whether the call is part of a transaction.
func (p *pending) within() bool {
	return strings.HasPrefix(p.what, "claim the key") || strings.HasPrefix(p.what, "look at the map") || strings.HasPrefix(p.what, "wait for tx")
}

// txPort is a shard that runs transactions.
type txPort struct {
	port
	w *world
}

func (o txPort) WaitTx(context.Context, storeapi.StoreKey) error {
	if o.w.config.noSettle {
		return nil
	}
	l := o.w.locks[o.name]
	_, err := stepBy(o.p, &pending{what: "wait for tx " + o.name, held: func() bool { return l.shared > 0 }}, false, func() (int, error) { return 0, nil })
	return err
}

func (w *world) txPorts(p *proc) map[string]storeapi.TxStore[string] {
	all := map[string]storeapi.TxStore[string]{}
	for _, n := range []string{"a", "b"} {
		all[n] = txPort{port{w.stores[n], p, n}, w}
	}
	return all
}

// RunTx behaves like a database. The claim locks the row of the key. The look at the map comes
// last, under a shared lock. Both locks end with the transaction, which may reach its COMMIT much
// later.
func (o txPort) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, string) (storeapi.State, storeapi.Answer, error)) (rec storeapi.Record, err error) {
	l, open := o.w.locks[o.name], false
	held := func() bool { return l.key > 0 }
	rec, err = stepBy(o.p, &pending{what: "claim the key in " + o.name, held: held}, false, func() (storeapi.Record, error) {
		rec, err := o.Store.Lookup(ctx, r.Key)
		if open = err == nil && !rec.State.Finished(); open {
			l.key++
		}
		return rec, err
	})
	if !open || err != nil {
		return rec, err
	}
	// ended: the locks were given back, or will be when the COMMIT arrives
	ended, shared := false, 0
	end := func() {
		if !ended {
			ended = true
			l.key--
			l.shared -= shared
		}
	}
	defer func() { // also if the process crashes
		if len(o.w.late) == 0 {
			end()
		}
	}()
	state, answer, err := work(ctx, o.name)
	if err != nil {
		return rec, err
	}
	_, err = stepBy(o.p, &pending{what: "look at the map in " + o.name}, false, func() (int, error) {
		l.shared++
		shared = 1
		if o.w.config.noGate {
			return 0, nil
		}
		return 0, r.Gate.Check(ctx, func(key storeapi.StoreKey) (storeapi.Record, error) { return o.Store.Lookup(ctx, key) })
	})
	if err != nil {
		return rec, err
	}
	commit := func() (storeapi.Record, error) {
		o.w.effect(string(answer.Body))
		got := must(o.Store.Acquire(ctx, storeapi.AcquireRequest{
			Key: r.Key, Owner: r.Owner, Lease: time.Hour, Retention: r.Retention, OnDoubt: storeapi.Refuse,
		}))
		o.w.fence = max(o.w.fence, got.Record.Fence)
		return o.Store.Complete(ctx, storeapi.CompleteRequest{
			Key: r.Key, Owner: r.Owner, Fence: got.Record.Fence, State: state, Answer: answer, Retention: r.Retention,
		})
	}
	return stepBy(o.p, &pending{what: "commit in " + o.name}, false, func() (storeapi.Record, error) {
		defer end()
		return commit()
	})
}

// effect is a committed transaction.
func (w *world) effect(body string) {
	if w.done != "" {
		w.broken = fmt.Sprintf("two effects: %s and %s", w.done, body)
	}
	w.done = body
}

// txCaller runs a transaction, and repeats it if it gets no answer.
func (w *world) txCaller(p *proc, s *shardstore.Store, tx *shardstore.TxStore[string], id byte) {
	err := errCut
	for try := 0; try < 2 && err != nil; try++ {
		p.at("transaction", try, shardstore.Dump(s))
		var rec storeapi.Record
		if rec, err = w.runTx(tx, id); err == nil && string(rec.Answer.Body) != w.done {
			w.broken = fmt.Sprintf("P%d is told %q after %q was committed", id, rec.Answer.Body, w.done)
		}
	}
}

func (w *world) runTx(tx *shardstore.TxStore[string], id byte) (storeapi.Record, error) {
	r := storeapi.TxRequest{Key: theKey, Owner: storeapi.Owner{id}, Retention: 24 * time.Hour}
	return tx.RunTx(context.Background(), r, func(context.Context, string) (storeapi.State, storeapi.Answer, error) {
		return storeapi.StateCompleted, storeapi.Answer{Codec: "raw", Body: fmt.Appendf(nil, "of P%d", id), Kept: true}, nil
	})
}

// probeTx asks like a new process, if no transaction has the key.
func (w *world) probeTx(s *shardstore.Store) {
	if w.locks["a"].key+w.locks["b"].key > 0 {
		return
	}
	done := w.done
	rec, err := w.runTx(must(shardstore.NewTx(s, w.txPorts(new(proc)))), 99)
	m := s.Map()
	switch {
	case errors.Is(err, storeapi.ErrUnavailable) && m.Closing:
	case err != nil:
		w.broken = "a new process is told: " + err.Error()
	case done != "" && string(rec.Answer.Body) != done:
		w.broken = fmt.Sprintf("a new process is told %q after %q was kept", rec.Answer.Body, done)
	}
}
