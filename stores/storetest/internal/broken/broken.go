// Package broken has stores that break the contract on purpose, each in one way, with the clause
// that must catch it. A suite that such a store passes would prove nothing.
package broken

import (
	"slices"

	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Broken is a store with one mistake.
type Broken struct {
	// Name says what is wrong.
	Name string
	// Clause is the clause that must catch it.
	Clause string
	// Also are other clauses that fail, since they use what is broken. All the rest must pass.
	Also []string
	// Maybe are clauses that fail if calls happen to run at the same time.
	Maybe []string
	// Open creates an empty store.
	Open func(cleanup func(func())) storetest.Backend
	// Features are the claims of the store.
	Features storetest.Features
}

// All returns every broken store.
func All() []Broken {
	return slices.Concat(claimMistakes(), acquireMistakes(), ownerMistakes(), endMistakes(), retentionMistakes(), byteMistakes(), environmentMistakes(), progressMistakes(), workedMistakes(), doubtMistakes(), listMistakes(), batchMistakes(), limitMistakes(), usageMistakes(), forgetMistakes())
}

// plainFeatures are the claims of a store without hooks.
var plainFeatures = storetest.Features{Issuer: true, Sweeper: true}

// mayFail sets the clauses that may fail.
func (b Broken) mayFail(clauses ...string) Broken {
	b.Maybe = clauses
	return b
}

// withRule returns a store with one rule changed.
func withRule(name, clause string, change func(*rules), also ...string) Broken {
	return Broken{name, clause, also, nil, func(func(func())) storetest.Backend {
		clock := storetest.NewClock()
		s := newStore(clock.Now)
		change(&s.rules)
		return storetest.Backend{Store: s, Advance: clock.Advance, Rewind: clock.Rewind}
	}, plainFeatures}
}
