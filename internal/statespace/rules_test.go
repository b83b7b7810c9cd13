//go:build !race

package statespace_test

import (
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// rules are the mistakes of a variant of the store or of its callers. The zero rules are the real
// rules.
type rules struct {
	// before changes what the store decides on.
	before func(*protocol.Row, *storeapi.AcquireRequest)
	// won changes what a successful claim or a repeated call writes.
	won func(before, next *protocol.Row, req *storeapi.AcquireRequest)
	// owns recognises the holder of a record by something other than its owner and fence.
	owns func(*protocol.Row, holder) bool
	// wipes: a Release is applied to a completed record.
	wipes bool
	// forgetful: a sweep does not store the fence of what it removes.
	forgetful bool
	// late: an Acquire may be applied after its NotAfter.
	late bool

	// strays: callers send a Release after an unanswered Complete.
	strays bool
	// reclaimsAll: callers also give back claims that they know to have succeeded.
	reclaimsAll bool
	// forgetsTries: once a try is answered, callers forget the tries before it.
	forgetsTries bool
	// forgetsAtWin: they do so if that answer is a successful claim.
	forgetsAtWin bool
	// opensDoubt: an operator's unanswered claim is given back by a release.
	opensDoubt bool
	// unconfirmed: an asker that may work begins before the record says so.
	unconfirmed bool
}

// variant has the rules with one of them broken, and the properties that this violates.
type variant struct {
	name   string
	rules  rules
	breaks []property
	// needs is what the search needs in addition to two callers.
	needs []func(*config)
}

func bothPolicies(c *config) { c.policies = mixed }
func twoTries(c *config)     { c.tries = 2 }
func operator(c *config)     { c.operators, c.operatorTries = 1, 1 }
func writes(c *config)       { c.writes = true }
func clockBack(c *config)    { c.backs, c.back = 1, 8 }

// variants are searched for one property at a time.
var variants = []variant{
	{"takeover by the request alone", rules{before: takeoverByRequest}, []property{oneStart}, needs(bothPolicies)},
	{"Release behind an unanswered Complete", rules{strays: true}, []property{oneStart, doubtKept}, nil},
	{"Release wipes completed", rules{wipes: true, strays: true}, []property{answerKept, oneStart, oneAnswer}, nil},
	{"Acquire applied after its time limit", rules{late: true, before: noLimit}, []property{noGhost}, nil},
	{"ownership by attempt number", rules{owns: byAttempt}, []property{oneAnswer, staleRefused}, nil},
	{"fence is the attempt", rules{won: fenceIsAttempt}, []property{fencesGrow, fenced}, needs(writes)},
	{"fences from the clock alone", rules{forgetful: true}, []property{fencesGrow, fenced}, needs(writes, clockBack)},
	{"records in progress expire", rules{won: expires}, []property{oneStart, doubtKept}, nil},
	{"give-back of an attempt that ran", rules{reclaimsAll: true}, []property{oneStart, doubtKept}, needs(twoTries)},
	{"give-back forgets tries before an answered one", rules{forgetsTries: true}, []property{noGhost}, needs(twoTries)},
	{"give-back forgets tries before one that won", rules{forgetsAtWin: true}, []property{noGhost}, needs(twoTries)},
	{"give-back of an operator's claim opens the doubt", rules{opensDoubt: true}, []property{oneStart, doubtKept}, needs(operator)},
	{"Resolve keeps the fence", rules{won: keepsFence, owns: byFence}, []property{fencesGrow, oneAnswer}, needs(operator)},
	{"Resolve over a completed record", rules{before: overCompleted}, []property{answerKept, oneAnswer}, needs(operator)},
	{"an asker takes the place of the work", rules{won: asksForgetful}, []property{named}, needs(operator)},
	{"an asker counts as work", rules{won: asksAsWork}, []property{named}, needs(operator)},
	{"a takeover takes the place of the work", rules{won: takesPlace}, []property{named}, needs(bothPolicies)},
	{"an asker works before the record says so", rules{unconfirmed: true}, []property{named}, needs(operator)},
	{"no takeover", rules{before: noTakeover, won: expiresNever}, []property{notStuck}, needs(bothPolicies)},
}

func needs(all ...func(*config)) []func(*config) { return all }

func takeoverByRequest(row *protocol.Row, req *storeapi.AcquireRequest) {
	if req.IfFence == 0 && row.State == storeapi.StateInProgress {
		row.OnDoubt = req.OnDoubt
	}
}

func overCompleted(row *protocol.Row, req *storeapi.AcquireRequest) {
	if req.IfFence != 0 && row.State == storeapi.StateCompleted {
		row.State = storeapi.StateFailed
	}
}

func noTakeover(row *protocol.Row, req *storeapi.AcquireRequest) {
	if req.IfFence == 0 && row.State == storeapi.StateInProgress {
		req.OnDoubt = storeapi.Refuse
	}
}

func noLimit(_ *protocol.Row, req *storeapi.AcquireRequest) { req.NotAfter = protocol.Time(1 << 40) }

func fenceIsAttempt(_, next *protocol.Row, _ *storeapi.AcquireRequest) {
	next.Fence = storeapi.Fence(next.Attempt)
}

func expires(_, next *protocol.Row, _ *storeapi.AcquireRequest) {
	next.Expires = next.LeaseEnd + next.Retention
}

func expiresNever(_, next *protocol.Row, _ *storeapi.AcquireRequest) { next.Expires = 0 }

func asksForgetful(_, next *protocol.Row, req *storeapi.AcquireRequest) {
	if req.Asks {
		next.Earlier = nil
	}
}

func asksAsWork(_, next *protocol.Row, _ *storeapi.AcquireRequest) { next.Asks = false }

func takesPlace(_, next *protocol.Row, req *storeapi.AcquireRequest) {
	if req.IfFence == 0 {
		next.Earlier = nil
	}
}

func keepsFence(before, next *protocol.Row, req *storeapi.AcquireRequest) {
	if req.IfFence != 0 {
		next.Fence = before.Fence
	}
}

func byAttempt(row *protocol.Row, h holder) bool { return row.Attempt == h.attempt }
func byFence(row *protocol.Row, h holder) bool   { return row.Fence == h.fence }
