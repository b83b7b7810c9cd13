//go:build !race

package statespace_test

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe"
)

// config bounds a search.
type config struct {
	name string
	// callers and operators are how many calls of each kind are made, one after the other or at
	// once; together is how many callers may be at work at once (zero: all).
	callers, operators, together int
	// tries is how often a call may send its Acquire, at most maxTries.
	tries int
	// operatorTries is the same for operators; zero: the same number.
	operatorTries int
	// lease, retention and window (how long an Acquire may be under way) are in microseconds.
	lease, retention, window int64
	policies                 []retrysafe.OnDoubt
	// ticks are the steps that the clock may take, back the one by which it may go back, at most
	// backs times.
	ticks []int64
	back  int64
	backs int
	// dups is how many requests the network delivers twice after their answer was heard.
	dups int
	// force lets operators seize a live lease; extends lets leases be extended; fails lets work end
	// with a refusal that is kept; writes lets work write to the resource that checks fences, at
	// any time after its start.
	force, extends, fails, writes bool
	rules                         *rules
	check                         properties
	// rand makes estimates of the store's clock uncertain.
	rand *rand.Rand
}

// phase is where a call stands.
type phase uint8

const (
	idle      phase = iota
	acquiring       // has asked, or was told that the key is in progress, and may ask again
	running         // was told that it won
	ending          // has decided how its attempt ends
	gone            // its caller was told something, or crashed
)

// flight is the set of a call's requests that are under way.
type flight uint8

const (
	try1 flight = 1 << iota
	try2
	try3
	extend
	end
	giveBack // E2
	stray    // a release that no right caller sends
	works    // an asker was told that nothing was done, and says that its work begins
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

// call is one Begin or one Resolve, with an owner of its own.
type call struct {
	id       uint16
	operator bool
	phase    phase
	policy   retrysafe.OnDoubt

	tries    uint8
	open     bool // the last try has no answer yet
	flight   flight
	notAfter [maxTries]int64
	// unanswered is the last NotAfter of the tries that were never answered: what they claimed must
	// be given back. Zero: there is none.
	unanswered int64
	giving     retrysafe.Fence // what is being given back
	intoDoubt  bool            // and how: by a doubt, not a release
	returned   retrysafe.Fence // what it has given back into doubt, and need not again
	ifFence    retrysafe.Fence
	force      bool

	// What it was told that it won.
	fence   retrysafe.Fence
	attempt uint8
	record  retrysafe.OnDoubt
	ending  decision

	// The rest is for the properties.
	win     uint16 // which of all wins
	life    uint8  // which of the record's lives
	started bool
	wrote   bool // took effect at the resource
	inert   bool // certainly did not and will not take effect
	excused bool // an operator has allowed a run beside this one
	crashed bool
	begins  bool // an operator that has sent works
	settled bool // a refusal followed, which a person has opened again
}

func (c *call) owner() (o retrysafe.Owner) {
	binary.BigEndian.PutUint16(o[:], c.id)
	return o
}

func (c *call) holder() holder { return holder{c.owner(), c.fence, int(c.attempt)} }

// body is the answer that a call gives; every call has another.
func (c *call) body(d decision) []byte { return binary.BigEndian.AppendUint16([]byte{byte(d)}, c.id) }

// mayWrite tells whether the work may still take effect at the resource: also after its caller has
// given up on it or has died, for its request may be under way.
func (w *world) mayWrite(c *call) bool { return w.writes && c.started && !c.wrote && !c.inert }

// world is one state: the store, the calls with their requests under way, the resource that checks
// fences, and what the properties need to remember.
type world struct {
	*config
	store store
	calls []call
	// dupsLeft and backsLeft are what is left of dups and backs.
	dupsLeft, backsLeft int
	resource            struct {
		fence retrysafe.Fence // the highest that it has seen
		win   uint16
	}
	seen   notes
	result result // of the last delivery
}

// result is what the store said to a request.
type result struct {
	status retrysafe.Status
	fence  retrysafe.Fence
	err    error
}

// notes is what the properties remember.
type notes struct {
	highest retrysafe.Fence // of all wins
	wins    uint16
	life    uint8
	over    bool // the record's life has ended by the rules
	state   retrysafe.State
	policy  retrysafe.OnDoubt // of the record when it was last there
	allowed bool              // an operator has allowed another run in this life
	// the final answer that somebody was told; zero: nobody was, or its retention has passed
	told   [3]byte
	keep   int64 // when the retention of the stored answer ends
	ghosts bool  // what excuses a claim that nobody waits for has happened
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

// fork copies a world over a row.
func (w *world) fork() *world {
	n := &world{store: new(rows)}
	n.become(w)
	return n
}

// become makes w a copy of another.
func (w *world) become(o *world) {
	s, calls := w.rows(), w.calls
	*s = *o.rows()
	*w = *o
	w.store, w.calls = s, append(calls[:0], o.calls...)
}

// rows is the store of the exhaustive search; nil in the random one.
func (w *world) rows() *rows {
	s, _ := w.store.(*rows)
	return s
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
