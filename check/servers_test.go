package check_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/internal/servers"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// expectation is what the checks have to find in a broken shop.
type expectation struct {
	// by is the check that has to find the fault.
	by string
	// consequences are checks that may find it too: the fault shows there as well, or shows there
	// if requests happen to meet.
	consequences []string
}

// everywhere are the checks that send a request again some time after its answer.
var everywhere = []string{
	"sequential-duplicate", "concurrent-duplicates", "other-body", "other-body-while-running", "json-order", "hang-up",
	"half-body", "after-client-error", "after-too-many", "after-server-error", "quoted-key", "fidelity", "contract",
	"no-credentials", "restart-after", "restart-during",
}

var expectations = map[string]expectation{
	// The other body gets the first answer when both come at once, too.
	"forgets-body":   {by: "other-body", consequences: []string{"other-body-while-running"}},
	"forgets-caller": {by: "other-caller"},
	// A crash in the middle of the work leaves the answer of success, as an error of it does.
	"success-before-work": {by: "after-server-error", consequences: []string{"restart-during"}},
	// Two bodies that come at once both act, and so does a retry at once after a hang-up.
	"check-then-act":    {by: "concurrent-duplicates", consequences: []string{"other-body-while-running", "hang-up"}},
	"trusts-strangers":  {by: "no-credentials"},
	"leaks-in-refusals": {by: "no-credentials"},
	"loses-header":      {by: "fidelity"},
	"answers-early":     {by: "concurrent-duplicates"},
	// The work may have ended before the restart in its middle.
	"forgets-at-restart": {by: "restart-after", consequences: []string{"restart-during"}},
	// On a slow machine each retry may come after the answer has expired.
	"expires-early":   {by: "expiry", consequences: everywhere},
	"takes-first-key": {by: "doubled-key"},
	"forgets-route":   {by: "other-route"},
	"folds-case":      {by: "key-case"},
	// A key in quotes is longer than what it keeps, with or without a space.
	"cuts-keys":       {by: "cut-key", consequences: []string{"alike-keys"}},
	"trims-keys":      {by: "alike-keys"},
	"folds-accents":   {by: "alike-keys"},
	"compares-amount": {by: "other-body"},
	// Of the fifty at once, some may come when the first has ended.
	"replays-eight-times": {by: "sequential-duplicate", consequences: []string{"concurrent-duplicates"}},
	"keeps-eight-answers": {by: "newer-keys"},
}

// TestBrokenShops: each fault is found by the check that is for it, and nothing else is found that
// is not a consequence of it.
func TestBrokenShops(t *testing.T) {
	t.Parallel()
	shops := servers.Broken()
	assert.Equal(t, len(shops), len(expectations), "broken shops")
	reports := examineAll(t, shops, func(shop servers.Shop) time.Duration {
		if expectations[shop.Name].by == "expiry" {
			return 10 * time.Second
		}
		return 0
	})
	for i, shop := range shops {
		t.Run(shop.Name, func(t *testing.T) {
			t.Parallel()
			want := expectations[shop.Name]
			broken := brokenIn(t, reports[i])
			assert.True(t, slices.Contains(broken, want.by), "%s finds it; found: %v", want.by, broken)
			for _, id := range broken {
				assert.True(t, id == want.by || slices.Contains(want.consequences, id), "%s is a consequence; found: %v", id, broken)
			}
		})
	}
}

// contracts are the contracts that shops keep.
var contracts = map[string]string{
	"like-stripe": "stripe", "retrysafe-ietf": "ietf", "retrysafe-stripe": "stripe", "retrysafe-acp": "acp",
}

// TestRightShops: nothing is broken in a shop that is right in its own way.
func TestRightShops(t *testing.T) {
	t.Parallel()
	assertAllRight(t, servers.Right())
}

// assertAllRight examines right shops at once.
func assertAllRight(t *testing.T, shops []servers.Shop) {
	t.Helper()
	reports := examineAll(t, shops, func(servers.Shop) time.Duration { return 4 * time.Second })
	for i, shop := range shops {
		t.Run(shop.Name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, len(brokenIn(t, reports[i])), 0, "broken checks of %s", shop.Name)
			for _, r := range reports[i].Results {
				if r.Verdict == check.Undecided {
					assert.True(t, undecidedOf(shop.Name, r.ID), "%s of %s is decided: %s", r.ID, shop.Name, r.Summary)
				}
			}
		})
	}
}

// undecidedOf reports whether a check of a right shop may be undecided. On a slow machine an answer
// may come too late to decide.
func undecidedOf(shop, id string) bool {
	return id == "contract" && contracts[shop] == "" || id == "expiry"
}

// examineAll examines shops, all at once: an examination mostly waits. Its patience is short for a
// test, and long for what is waited for: an outcome that stays in doubt is looked at until it ends.
func examineAll(t *testing.T, shops []servers.Shop, kept func(servers.Shop) time.Duration) []*check.Report {
	t.Helper()
	reports, errs := make([]*check.Report, len(shops)), make([]error, len(shops))
	var all sync.WaitGroup
	for i, shop := range shops {
		dir := t.TempDir()
		all.Go(func() { reports[i], errs[i] = examineShop(t.Context(), shop, dir, kept(shop)) })
	}
	all.Wait()
	for i, err := range errs {
		assert.NoError(t, err, "examine %s", shops[i].Name)
	}
	return reports
}

// examineShop starts a shop and examines it with all that a target can have.
func examineShop(ctx context.Context, shop servers.Shop, dir string, kept time.Duration) (*check.Report, error) {
	s, err := servers.StartAnywhere(shop, dir, freeport.Get)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return check.Examine(ctx, targetOf(s, contracts[shop.Name], kept), &check.Options{Rate: 1000, Patience: 10 * time.Second})
}

func targetOf(s *servers.Server, contract string, kept time.Duration) check.Target {
	ann := http.Header{"Authorization": {servers.Ann}, "Content-Type": {"application/json"}}
	pay := check.Request{URL: s.URL("/payments"), Header: ann, Body: []byte(`{"amount":500,"currency":"EUR"}`)}
	refund := pay.Clone()
	refund.URL = s.URL("/refunds")
	trouble := func(status string) *check.Trouble {
		return &check.Trouble{Header: http.Header{"X-Trouble": {status}}}
	}
	return check.Target{
		Request: pay, Oracle: check.Page{URL: s.URL("/effects"), Path: "$.total"}, OtherRoute: &refund,
		OtherCaller: http.Header{"Authorization": {servers.Bob}},
		ClientError: trouble("400"), TooMany: trouble("429"), ServerError: trouble("500"),
		Restart: s.Restart, Kept: kept, Contract: contract,
	}
}

// brokenIn returns the checks that found a fault, and logs what they say.
func brokenIn(t *testing.T, report *check.Report) []string {
	t.Helper()
	var ids []string
	for i := range report.Results {
		switch r := &report.Results[i]; r.Verdict {
		case check.Broken:
			ids = append(ids, r.ID)
			t.Logf("%s, broken (%s): %s\n%s", r.ID, r.Severity, r.Summary, r.Reproduction())
		case check.Noted, check.Undecided:
			t.Logf("%s, %s: %s", r.ID, r.Verdict, r.Summary)
		}
	}
	return ids
}
