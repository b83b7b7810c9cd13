//go:build !race

package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

// world runs the real code on stores in memory. Each call to a shard waits until the search lets it
// happen and decides its outcome. Random values in it do not matter, so the same actions lead to
// the same world.
type world struct {
	config *config
	clocks map[string]*storetest.Clock
	stores map[string]*memstore.Store
	locks  map[string]*locks // of transactions, by shard
	procs  []*proc
	turn   chan struct{} // receives when a process waits or has ended
	late   []arrival
	faults int
	ticks  int
	// last is the process that did the last step; switches is how many switches are left.
	last, switches int
	log            []string

	// What callers were answered.
	active map[storeapi.Owner]bool // may run: claimed, and not released
	done   string                  // the answer whose Complete was confirmed
	fence  storeapi.Fence          // the largest of a successful claim
	got    storeapi.Record         // of the last successful claim
	broken string
}

// config limits a search.
type config struct {
	name string
	// ends are what the callers do after a successful claim: 'c' completes, 'r' releases, 'd' dies.
	// 't' is a transaction.
	ends     string
	skew     time.Duration // of shard b
	fault    int           // how many
	switches int
	ticks    int  // how often the clocks advance by themselves
	slow     bool // the faults are claims that others see late
	back     bool // the move is taken back
	// Rules that are broken on purpose.
	noUntil, noWait, noLook, noClock bool
	noGate, noSettle, noClosing      bool
}

// proc is a process: a caller or, as the last one, the operator.
type proc struct {
	w       *world
	name    string
	quiet   bool // its looks at maps are no separate steps, since no other process writes maps
	pending *pending
	verdict chan how
	ended   bool
	seen    uint64 // hash of all answers that it got
}

type pending struct {
	what string
	// decides reports whether a claim that others see late is in time, and removes its limits.
	decides func() bool
	wait    time.Duration // not a call, but a wait until the clocks have advanced by this
	// reports whether another process has the lock that it needs; nil: it needs none
	held func() bool
}

// how is the outcome of a call.
type how byte

const (
	answered how = iota
	lostReply
	lostRequest
	lateRequest
	crashed
	seenLate
	hows
)

func (h how) String() string {
	return [...]string{"", ", reply lost", ", request lost", ", request late", ", crash", ", decided, and not seen yet"}[h]
}

// arrival is a request that is still in flight after its caller has given up.
type arrival struct {
	what string
	do   func()
}

// step makes a call of the process when the search lets it happen.
func step[T any](p *proc, what string, silent bool, do func() (T, error)) (got T, err error) {
	return stepBy(p, &pending{what: what}, silent, do)
}

func stepBy[T any](p *proc, now *pending, silent bool, do func() (T, error)) (got T, err error) {
	what := now.what
	tell := func(s string) {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %s", p.seen, s)
		p.seen = h.Sum64()
	}
	if p.w == nil || p.quiet && silent {
		return do()
	}
	p.pending = now
	p.w.turn <- struct{}{}
	v := <-p.verdict
	if v == seenLate {
		v = answered
		if now.decides() {
			p.w.late = append(p.w.late, arrival{p.name + " " + what, func() {
				p.verdict <- answered
				<-p.w.turn
			}})
			tell("decided " + what)
			p.w.turn <- struct{}{}
			v = <-p.verdict
		}
	}
	switch v {
	case crashed:
		p.ended = true
		p.w.turn <- struct{}{}
		runtime.Goexit()
	case lostRequest:
		err = errCut
	case lateRequest:
		p.w.late = append(p.w.late, arrival{p.name + " " + what, func() { _, _ = do() }})
		err = errCut
	default:
		got, err = do()
		if v == lostReply {
			var none T
			got, err = none, errCut
		}
	}
	tell(fmt.Sprintf("%s %s %v", what, plain(got), err))
	return got, err
}

// at records all that a process knows between two calls: earlier answers do not matter any more.
func (p *proc) at(all ...any) {
	h := fnv.New64a()
	fmt.Fprint(h, all...)
	p.seen = h.Sum64()
}

// plain is the part of an answer that can affect a decision: the writer of a map and its fence
// cannot.
func plain(v any) string {
	rec := func(r *storeapi.Record) string {
		if r.Key.Namespace == "n" {
			return fmt.Sprintf("%+v", *r)
		}
		return fmt.Sprintf("%v %s %v %v", r.State, r.Answer.Body, r.LeaseLeft, r.Now.UnixMicro())
	}
	switch v := v.(type) {
	case storeapi.Acquired:
		return fmt.Sprint(v.Status, rec(&v.Record))
	case storeapi.Record:
		return rec(&v)
	case storeapi.Page:
		var b strings.Builder
		for i := range v.Records {
			b.WriteString(rec(&v.Records[i]))
		}
		return b.String()
	}
	return ""
}

// port is a shard as seen by a process.
type port struct {
	*memstore.Store
	p    *proc
	name string
}

func (o port) is(key storeapi.StoreKey) (string, bool) {
	if key.Namespace == "n" {
		return "the key in " + o.name, false
	}
	return key.Operation + " " + key.ID + " in " + o.name, true
}

func (o port) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	what, isMap := o.is(req.Key)
	if o.p.w != nil && o.p.w.config.noUntil {
		req.Until = time.Time{}
	}
	silent := isMap // a map is visible when it is completed
	now, decided := &pending{what: "acquire " + what}, time.Time{}
	now.decides = func() bool {
		decided = o.p.w.clocks[o.name].Now()
		if limit := req.Limit(); !limit.IsZero() && decided.After(limit) {
			return false
		}
		req.NotAfter, req.Until = time.Time{}, time.Time{}
		return true
	}
	return stepBy(o.p, now, silent, func() (storeapi.Acquired, error) {
		got, err := o.Store.Acquire(context.Background(), req)
		if !decided.IsZero() {
			got.Record.Now = decided
		}
		if o.p.w != nil && o.p.w.config.noUntil {
			got.Record.Now = time.Time{} // nor does a later look show how late it is
		}
		return got, err
	})
}

func (o port) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	what, _ := o.is(req.Key)
	return step(o.p, "complete "+what, false, func() (storeapi.Record, error) { return o.Store.Complete(context.Background(), req) })
}

func (o port) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	what, _ := o.is(req.Key)
	_, err := step(o.p, "release "+what, false, func() (int, error) { return 0, o.Store.Release(context.Background(), req) })
	return err
}

func (o port) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	what, isMap := o.is(key)
	return step(o.p, "look up "+what, isMap, func() (storeapi.Record, error) { return o.Store.Lookup(context.Background(), key) })
}

func (o port) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	return step(o.p, "list "+o.name, false, func() (storeapi.Page, error) {
		req.Namespace = "n"
		return o.Store.List(context.Background(), req)
	})
}

func (w *world) ports(p *proc, names string) shards {
	all := shards{}
	for _, n := range strings.Split(names, "") {
		all[n] = port{w.stores[n], p, n}
		if w.hasTx() && (p.name != "operator" || !w.config.noClosing) {
			all[n] = txPort{port{w.stores[n], p, n}, w}
		}
	}
	return all
}

var (
	theKey   = storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "o", ID: "k"}}
	mapLease = 10 * time.Second
)

// newWorld returns a world with callers that know the first map, in which a is the home of all
// keys, and an operator that moves them to b.
func newWorld(c *config) *world {
	w := &world{
		config: c, clocks: map[string]*storetest.Clock{}, stores: map[string]*memstore.Store{}, locks: map[string]*locks{}, turn: make(chan struct{}),
		faults: c.fault, ticks: c.ticks, switches: c.switches, active: map[storeapi.Owner]bool{},
	}
	for _, n := range []string{"a", "b"} {
		clock := storetest.NewClock()
		w.clocks[n], w.stores[n], w.locks[n] = clock, memstore.New(&memstore.Options{Now: clock.Now}), new(locks)
	}
	w.clocks["b"].Advance(c.skew)
	must(shardstore.New(context.Background(), w.ports(new(proc), "a"), &shardstore.Options{Lease: mapLease}))
	// The new shard has had the map for a long time.
	_, wait, err := shardstore.Step(context.Background(), w.ports(new(proc), "ab"), []string{"b"})
	must(wait, err)
	w.pass(wait)
	for i, end := range c.ends {
		p := &proc{name: fmt.Sprintf("P%d", i+1), verdict: make(chan how)}
		s := must(shardstore.New(context.Background(), w.ports(p, "ab"), nil))
		if !c.noClock {
			shardstore.SetClock(s, w.clocks["a"].Now)
		}
		// They have looked at the shard before.
		_, _ = s.Lookup(context.Background(), theKey)
		if end == 't' {
			tx := must(shardstore.NewTx(s, w.txPorts(p)))
			w.begin(p, func() { w.txCaller(p, s, tx, byte(i+1)) })
			continue
		}
		w.begin(p, func() { w.caller(p, s, byte(i+1), end) })
	}
	op := &proc{name: "operator", verdict: make(chan how), quiet: true}
	all := w.ports(op, "ab")
	w.begin(op, func() { w.operator(op, all) })
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) begin(p *proc, run func()) {
	p.w = w
	w.procs = append(w.procs, p)
	go func() {
		run()
		p.ended, p.pending = true, nil
		w.turn <- struct{}{}
	}()
	<-w.turn
}

// caller behaves like the engine: it repeats unanswered calls as the same owner.
func (w *world) caller(p *proc, s *shardstore.Store, id byte, end rune) {
	ctx, owner := context.Background(), storeapi.Owner{id}
	req := storeapi.AcquireRequest{Key: theKey, Owner: owner, Lease: 24 * time.Hour, Retention: 24 * time.Hour, OnDoubt: storeapi.Refuse}
	var got storeapi.Acquired
	err := errCut
	for try := 0; try < 2 && err != nil; try++ {
		p.at("acquire", try, shardstore.Dump(s))
		got, err = s.Acquire(ctx, req)
	}
	if err != nil || got.Status != storeapi.StatusAcquired {
		w.told(got, err)
		return
	}
	w.won(got.Record)
	if end == 'd' {
		return
	}
	err = errCut
	for try := 0; try < 2 && err != nil; try++ {
		p.at("end", try, shardstore.Dump(s), got.Record.Fence)
		if end == 'r' {
			delete(w.active, owner) // it did nothing
			err = s.Release(ctx, storeapi.ReleaseRequest{Key: theKey, Owner: owner, Fence: got.Record.Fence})
		} else {
			body := fmt.Sprintf("of P%d", id)
			_, err = s.Complete(ctx, storeapi.CompleteRequest{
				Key: theKey, Owner: owner, Fence: got.Record.Fence, State: storeapi.StateCompleted,
				Answer: storeapi.Answer{Codec: "raw", Body: []byte(body), Kept: true}, Retention: 24 * time.Hour,
			})
			if err == nil {
				w.done = body
			}
		}
		if end == 'c' && errors.Is(err, storeapi.ErrLeaseLost) {
			w.broken = "a holder whom nobody replaced was told that its lease is lost"
		}
	}
}

func (w *world) won(rec storeapi.Record) {
	switch {
	case len(w.active) > 0:
		w.broken = fmt.Sprintf("two runs: of %d and of %v", rec.Owner[0], w.active)
	case w.done != "":
		w.broken = "a run after it was done"
	case rec.Fence <= w.fence:
		w.broken = fmt.Sprintf("the fence %d comes after %d", rec.Fence, w.fence)
	case w.got.Attempt > 0 && (!rec.Created.Equal(w.got.Created) || rec.Attempt <= w.got.Attempt):
		// no record expires in a world, so the key has one
		w.broken = fmt.Sprintf("attempt %d of a record of %v comes after attempt %d of one of %v", rec.Attempt, rec.Created, w.got.Attempt, w.got.Created)
	}
	w.got = rec
	w.active[rec.Owner] = true
	w.fence = rec.Fence
}

// told checks a refusal.
func (w *world) told(got storeapi.Acquired, err error) {
	if err == nil && got.Status == storeapi.StatusFinished && got.Record.Answer.Body == nil {
		w.broken = "finished without an answer"
	}
}

// operator changes the shards, waits as long as Change says, and continues after errors a few
// times.
func (w *world) operator(p *proc, all shards) {
	ctx, names := context.Background(), []string{"b"}
	for try := 0; try < 3; {
		if w.config.noWait || w.config.noLook {
			if err := shardstore.Hasty(ctx, all, w.config.noWait); err != nil {
				try++
			}
		}
		p.at(try, names)
		m, wait, err := shardstore.Step(ctx, all, names)
		switch {
		case err != nil:
			try++
		case wait == 0:
			return
		case w.config.back && m.Moving():
			names = []string{"a"}
		case w.config.noWait && m.Moving():
		default:
			p.pending = &pending{what: "waits", wait: wait}
			w.turn <- struct{}{}
			if v := <-p.verdict; v == crashed {
				return
			}
		}
	}
}
