//go:build !race

package statespace_test

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// config limits a search.
type config struct {
	name string
	// callers and operators are how many calls of each kind are made, one after the other or
	// concurrently. together is how many callers may be working at once (zero: all).
	callers, operators, together int
	// tries is how often a call may send its Acquire, at most maxTries.
	tries int
	// operatorTries is the same for operators; zero: the same number.
	operatorTries int
	// lease, retention and window (how long an Acquire may be in flight) are in microseconds.
	lease, retention, window int64
	policies                 []storeapi.OnDoubt
	// ticks are the steps that the clock may take. back is the step by which it may go back, at
	// most backs times.
	ticks []int64
	back  int64
	backs int
	// dups is how many requests the network delivers twice after their answer has arrived.
	dups int
	// force lets operators take over a live lease. extends lets leases be extended. fails lets work
	// end with a stored refusal. writes lets work write to the resource that checks fences, at any
	// time after its start.
	force, extends, fails, writes bool
	rules                         *rules
	check                         properties
	// rand makes estimates of the store's clock uncertain.
	rand *rand.Rand
}

// phase is the state of a call.
type phase uint8

const (
	idle      phase = iota
	acquiring       // has asked, or knows that the key is in progress, and may ask again
	running         // knows that it has acquired the key
	ending          // has decided how its attempt ends
	gone            // its caller got a final answer, or crashed
)

// flight is the set of a call's requests that are in flight.
type flight uint8

const (
	try1 flight = 1 << iota
	try2
	try3
	extend
	end
	giveBack // E2
	stray    // a release that a right caller does not send
	works    // an asker learned that nothing was done, and reports that its work begins
)

const maxTries = 3

const acquires = try1 | try2 | try3

// decision is how an attempt ends.
type decision uint8

const (
	done decision = iota + 1
	failed
	nothing // released: certainly nothing happened, or the policy is Reexecute
	doubt
)

// call is one Begin or one Resolve, with its own owner.
type call struct {
	id       uint16
	operator bool
	phase    phase
	policy   storeapi.OnDoubt

	tries    uint8
	open     bool // the last try has no answer yet
	flight   flight
	notAfter [maxTries]int64
	// unanswered is the last NotAfter of the tries that were never answered: what they claimed must
	// be given back. Zero: there are none.
	unanswered int64
	giving     storeapi.Fence // what is being given back
	intoDoubt  bool           // by a doubt, not by a release
	returned   storeapi.Fence // given back into doubt; need not be given back again
	ifFence    storeapi.Fence
	force      bool

	// What it acquired.
	fence   storeapi.Fence
	attempt uint8
	record  storeapi.OnDoubt
	ending  decision

	// The rest is for the properties.
	win     uint16 // number among all successful claims
	life    uint8  // number of the record's life
	started bool
	wrote   bool // took effect at the resource
	inert   bool // certainly had no effect and will not have one
	excused bool // an operator has allowed a concurrent run
	crashed bool
	begins  bool // an operator that has sent works
	settled bool // a refusal followed, which a person has reopened
}

func (c *call) owner() (o storeapi.Owner) {
	binary.BigEndian.PutUint16(o[:], c.id)
	return o
}

func (c *call) holder() holder { return holder{c.owner(), c.fence, int(c.attempt)} }

// body returns the answer of a call, which is different for each call.
func (c *call) body(d decision) []byte { return binary.BigEndian.AppendUint16([]byte{byte(d)}, c.id) }

// mayWrite reports whether the work may still take effect at the resource, also after its caller
// has given up or died, since its request may be in flight.
func (w *world) mayWrite(c *call) bool { return w.writes && c.started && !c.wrote && !c.inert }

// world is one state: the store, the calls with their requests in flight, the resource that checks
// fences, and what the properties need to remember.
type world struct {
	*config
	store store
	calls []call
	// dupsLeft and backsLeft are what is left of dups and backs.
	dupsLeft, backsLeft int
	resource            struct {
		fence storeapi.Fence // the largest that it has seen
		win   uint16
	}
	seen   notes
	result result // of the last delivery
}

// result is the store's answer to a request.
type result struct {
	status storeapi.Status
	fence  storeapi.Fence
	err    error
}

// notes is what the properties remember.
type notes struct {
	highest storeapi.Fence // of all successful claims
	wins    uint16
	life    uint8
	over    bool // the record's life must have ended
	state   storeapi.State
	policy  storeapi.OnDoubt // of the record when it last existed
	allowed bool             // an operator has allowed another run in this life
	// the final answer that a caller got; zero: none did, or its retention has passed
	told   [3]byte
	keep   int64 // when the retention of the stored answer ends
	ghosts bool  // a claim that no caller waits for is excused
	broken property
	why    string
}

func newWorld(c *config, s store) *world {
	w := &world{config: c, store: s, dupsLeft: c.dups, backsLeft: c.backs}
	w.seen.over = true
	for i := range c.callers + c.operators {
		w.calls = append(w.calls, call{id: uint16(i + 1), operator: i >= c.callers})
	}
	return w
}

// fork copies a world that uses a row.
func (w *world) fork() *world {
	n := &world{store: new(rows)}
	n.become(w)
	return n
}

// become makes w a copy of o.
func (w *world) become(o *world) {
	s, calls := w.rows(), w.calls
	*s = *o.rows()
	*w = *o
	w.store, w.calls = s, append(calls[:0], o.calls...)
}

// rows returns the store of the exhaustive search, or nil in the random one.
func (w *world) rows() *rows {
	s, _ := w.store.(*rows)
	return s
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
