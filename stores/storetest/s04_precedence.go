package storetest

import (
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s04Precedence: the conditions of Acquire apply in order; the first match decides. Each case
// fulfils the conditions of two or more rows, so that only the order decides.
func s04Precedence(e *env) {
	for _, m := range precedenceCases {
		e.runSubtest(m.name, func(e *env) {
			if m.situation.reach == nil {
				m.checkAbsent(e)
				return
			}
			m.checkPresent(e)
		})
	}
	e.runSubtest("1 before 2: a malformed key", func(e *env) {
		long := strings.Repeat("k", storeapi.MaxPart+1)
		for _, spoil := range []func(*storeapi.AcquireRequest){
			func(r *storeapi.AcquireRequest) { r.Key.ID = long },
			func(r *storeapi.AcquireRequest) { r.Key.ID = "" },
			func(r *storeapi.AcquireRequest) { r.Key.ID, r.MustBeIssued = long, true },
			func(r *storeapi.AcquireRequest) { r.Key.ID, r.IfFence = "", 7 },
		} {
			req := e.newRequest(e.key())
			spoil(&req)
			_, err := e.Store.Acquire(e.ctx, req)
			assert.ErrorIs(e, err, storeapi.ErrInvalidKey, "Acquire of a malformed key")
		}
	})
	e.runSubtest("2 before 4, 5 and 6: what has expired is absent", func(e *env) {
		first := e.newRequest(e.key())
		first.Fingerprint, first.Binding = printA, bindA
		expireRecord(e, first)
		req := e.newRequest(first.Key)
		req.Fingerprint, req.Binding = printB, bindB
		r := e.claim(req)
		assert.Equal(e, r.Attempt, 1, "attempt after the record has expired")
		assert.Equal(e, string(r.Fingerprint), string(printB), "fingerprint after the record has expired")
	})
}

var (
	printA = []byte("\x01 one payload")
	printB = []byte("\x01 another payload")
	printC = []byte("\x02 one payload by another algorithm")
	bindA  = []byte("one credential")
	bindB  = []byte("another credential")
)

// precedenceCase is a request that meets a record, and the row of the table that must decide. The
// record has printA and bindA.
type precedenceCase struct {
	name string
	// situation is the state of the record; with no reach there is none.
	situation situation
	// policy is the record's; the request has the same unless ask changes it.
	policy storeapi.OnDoubt
	// changeRequest changes a request of another owner, with printA and bindA, into the one that
	// meets the record.
	changeRequest func(req *storeapi.AcquireRequest, r storeapi.Record)
	want          storeapi.Status
	// renewed: the same attempt is renewed, and no new one begins.
	renewed bool
}

const (
	refuse    = storeapi.Refuse
	reexecute = storeapi.Reexecute
)

type request = storeapi.AcquireRequest

func ifFence(q *request, r storeapi.Record) { q.IfFence = r.Fence }
func otherPrint(q *request)                 { q.Fingerprint = printB }
func otherBind(q *request)                  { q.Binding = bindB }
func sameOwner(q *request, r storeapi.Record) {
	q.Owner = r.Owner
}

var precedenceCases = []precedenceCase{
	{"2 before 3: absent and must be issued", situation{}, refuse, func(q *request, _ storeapi.Record) { q.MustBeIssued = true }, storeapi.StatusNotIssued, false},
	{"2 before 3a: absent and a fence", situation{}, refuse, func(q *request, _ storeapi.Record) { q.IfFence = 7 }, storeapi.StatusFenceChanged, false},
	{"2 before 3a: absent and a forced fence", situation{}, refuse, func(q *request, _ storeapi.Record) { q.IfFence, q.Force = 7, true }, storeapi.StatusFenceChanged, false},

	{"3 before 3a: not issued and a fence", doubted, refuse, func(q *request, r storeapi.Record) { q.MustBeIssued = true; ifFence(q, r) }, storeapi.StatusNotIssued, false},
	{"3 before 4: not issued and another credential", running, refuse, func(q *request, _ storeapi.Record) { q.MustBeIssued = true; otherBind(q) }, storeapi.StatusNotIssued, false},
	{"3 before 5: not issued and another payload", running, refuse, func(q *request, _ storeapi.Record) { q.MustBeIssued = true; otherPrint(q) }, storeapi.StatusNotIssued, false},
	{"3 before 6: not issued and completed", completed, refuse, func(q *request, _ storeapi.Record) { q.MustBeIssued = true }, storeapi.StatusNotIssued, false},
	{"3 before 8: not issued and in progress", running, refuse, func(q *request, _ storeapi.Record) { q.MustBeIssued = true }, storeapi.StatusNotIssued, false},
	{"3 before 9: not issued and to be run again", lapsed, reexecute, func(q *request, _ storeapi.Record) { q.MustBeIssued = true }, storeapi.StatusNotIssued, false},
	{"3 before 10: not issued and released", released, refuse, func(q *request, _ storeapi.Record) { q.MustBeIssued = true }, storeapi.StatusNotIssued, false},

	{"3a before 4: a fence and another credential", doubted, refuse, func(q *request, r storeapi.Record) { ifFence(q, r); otherBind(q) }, storeapi.StatusAcquired, false},
	{"3a before 4: a changed fence and another credential", doubted, refuse, func(q *request, r storeapi.Record) { q.IfFence = r.Fence + 1; otherBind(q) }, storeapi.StatusFenceChanged, false},
	{"3a before 5: a fence and another payload", lapsed, refuse, func(q *request, r storeapi.Record) { ifFence(q, r); otherPrint(q) }, storeapi.StatusAcquired, false},
	{"3a before 5: a changed fence and another payload", lapsed, refuse, func(q *request, r storeapi.Record) { q.IfFence = r.Fence + 1; otherPrint(q) }, storeapi.StatusFenceChanged, false},
	{"3a before 6: a fence and failed", failed, refuse, ifFence, storeapi.StatusAcquired, false},
	{"3a before 6: a changed fence and failed", failed, refuse, func(q *request, r storeapi.Record) { q.IfFence = r.Fence - 1 }, storeapi.StatusFenceChanged, false},
	{"3a before 6: a changed fence and completed", completed, refuse, func(q *request, r storeapi.Record) { q.IfFence = r.Fence - 1 }, storeapi.StatusFenceChanged, false},
	{"3a before 8: a fence and in progress", running, refuse, ifFence, storeapi.StatusInProgress, false},
	{"3a before 8: a forced fence and in progress", running, refuse, func(q *request, r storeapi.Record) { ifFence(q, r); q.Force = true }, storeapi.StatusAcquired, false},
	{"3a before 9: a fence and in doubt", lapsed, refuse, ifFence, storeapi.StatusAcquired, false},
	{"3a before 9: a changed fence and to be run again", lapsed, reexecute, func(q *request, r storeapi.Record) { q.IfFence = r.Fence + 1 }, storeapi.StatusFenceChanged, false},
	{"3a before 10: a changed fence and released", released, refuse, func(q *request, r storeapi.Record) { q.IfFence = r.Fence + 1 }, storeapi.StatusFenceChanged, false},

	{"4 before 5: another credential and another payload", running, refuse, func(q *request, _ storeapi.Record) { otherBind(q); otherPrint(q) }, storeapi.StatusPrincipalChanged, false},
	{"4 before 5: the same, completed", completed, refuse, func(q *request, _ storeapi.Record) { otherBind(q); otherPrint(q) }, storeapi.StatusPrincipalChanged, false},
	{"4 before 6: another credential and completed", completed, refuse, func(q *request, _ storeapi.Record) { otherBind(q) }, storeapi.StatusPrincipalChanged, false},
	{"4 before 7: another credential and the same owner", running, refuse, func(q *request, r storeapi.Record) { otherBind(q); sameOwner(q, r) }, storeapi.StatusPrincipalChanged, false},
	{"4 before 8: another credential and in progress", running, refuse, func(q *request, _ storeapi.Record) { otherBind(q) }, storeapi.StatusPrincipalChanged, false},
	{"4 before 9: another credential and to be run again", lapsed, reexecute, func(q *request, _ storeapi.Record) { otherBind(q) }, storeapi.StatusPrincipalChanged, false},

	{"5 before 6: another payload and completed", completed, refuse, func(q *request, _ storeapi.Record) { otherPrint(q) }, storeapi.StatusMismatch, false},
	{"5 before 6: another payload and failed", failed, refuse, func(q *request, _ storeapi.Record) { otherPrint(q) }, storeapi.StatusMismatch, false},
	{"5 before 7: another payload and the same owner", running, refuse, func(q *request, r storeapi.Record) { otherPrint(q); sameOwner(q, r) }, storeapi.StatusMismatch, false},
	{"5 before 8: another payload and in progress", running, refuse, func(q *request, _ storeapi.Record) { otherPrint(q) }, storeapi.StatusMismatch, false},
	{"5 before 9: another payload and in doubt", doubted, refuse, func(q *request, _ storeapi.Record) { otherPrint(q) }, storeapi.StatusMismatch, false},
	{"5 before 9: another payload and to be run again", lapsed, reexecute, func(q *request, _ storeapi.Record) { otherPrint(q) }, storeapi.StatusMismatch, false},
	{"5 not: another algorithm", completed, refuse, func(q *request, _ storeapi.Record) { q.Fingerprint = printC }, storeapi.StatusFinished, false},
	{"5 not: no payload given", completed, refuse, func(q *request, _ storeapi.Record) { q.Fingerprint = nil }, storeapi.StatusFinished, false},
	{"4 not: no credential given", completed, refuse, func(q *request, _ storeapi.Record) { q.Binding = nil }, storeapi.StatusFinished, false},

	{"6 before 7: completed and the same owner", completed, refuse, sameOwner, storeapi.StatusFinished, false},
	{"6 before 7: failed and the same owner", failed, reexecute, sameOwner, storeapi.StatusFinished, false},
	{"7 before 8: the same owner and in progress", running, refuse, sameOwner, storeapi.StatusAcquired, true},
	{"7 before 9: the same owner and in doubt", lapsed, refuse, sameOwner, storeapi.StatusAcquired, true},
	{"7 before 9: the same owner and to be run again", lapsed, reexecute, sameOwner, storeapi.StatusAcquired, true},
	{"7 as well with a payload of another algorithm", running, refuse, func(q *request, r storeapi.Record) { q.Fingerprint = printC; sameOwner(q, r) }, storeapi.StatusAcquired, true},
	{"8 before 9: in progress and to be run again", running, reexecute, func(*request, storeapi.Record) {}, storeapi.StatusInProgress, false},
	{"9: to be run again", lapsed, reexecute, func(*request, storeapi.Record) {}, storeapi.StatusAcquired, false},
	{"9: in doubt", lapsed, refuse, func(*request, storeapi.Record) {}, storeapi.StatusInDoubt, false},
	{"10: released", released, refuse, func(*request, storeapi.Record) {}, storeapi.StatusAcquired, false},
	{"10: released, with another payload and credential", released, refuse, func(q *request, _ storeapi.Record) { otherPrint(q); otherBind(q) }, storeapi.StatusAcquired, false},
}

func (m *precedenceCase) checkAbsent(e *env) {
	req := e.newRequest(e.key())
	m.changeRequest(&req, storeapi.Record{})
	e.acquire(req, m.want, m.name)
	e.wantAbsent(req.Key, m.name)
}

func (m *precedenceCase) checkPresent(e *env) {
	if e.f.Light && (m.situation.name == completed.name || m.situation.name == failed.name) && m.want != storeapi.StatusFinished {
		return // the record does not keep whose request it was
	}
	first := e.newRequest(e.key())
	first.Fingerprint, first.Binding, first.OnDoubt = printA, bindA, m.policy
	r := m.situation.reach(e, first)
	req := e.newRequest(r.Key)
	req.Fingerprint, req.Binding, req.OnDoubt = printA, bindA, m.policy
	m.changeRequest(&req, r)
	got := e.acquire(req, m.want, m.name)
	switch {
	case m.want != storeapi.StatusAcquired:
		e.wantSame(got, r, "the record that is told")
		e.wantUnchanged(r, m.name)
	case m.renewed:
		e.wantSame(e.lookup(r.Key), got, "Lookup after a repeat")
		assert.Equal(e, got.Attempt, r.Attempt, "attempt of a repeat")
		assert.Equal(e, got.Fence, r.Fence, "fence of a repeat")
		assert.True(e, got.LeaseLeft > e.long-time.Minute, "a repeat renews the lease: %v left", got.LeaseLeft)
	default:
		e.wantSame(e.lookup(r.Key), got, "Lookup after a new win")
		assert.Equal(e, got.Attempt, r.Attempt+1, "attempt of a new win")
		assert.True(e, got.Fence > r.Fence, "the fence grows: %d after %d", got.Fence, r.Fence)
	}
}
