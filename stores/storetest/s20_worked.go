package storetest

import (
	"fmt"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s20Worked: a record names every attempt that may have worked, and none that only asked, until it
// is finished: through questions, takeovers, releases under Reexecute and resolves. It keeps at
// most 16 earlier ones, and then says that there were more.
func s20Worked(e *env) {
	e.runSubtest("an asker is not one of them", func(e *env) {
		work := doubted.reach(e, e.newRequest(e.key()))
		e.wantWorked(work, "in doubt", work)
		first := e.claim(e.askRequest(work))
		e.wantWorked(first, "while it is asked about", work)
		assert.True(e, first.Asks, "the record says that it is asked about")
		e.releaseInDoubt(first)
		brief := e.askRequest(first)
		brief.Lease = e.short
		second := e.claim(brief)
		e.passLease(e.lookup(second.Key))
		third := e.claim(e.askRequest(second))
		e.wantWorked(third, "after three questions", work)
		e.release(third)
		e.wantWorked(third, "released", work)
		next := e.claim(e.newRequest(work.Key))
		e.wantWorked(next, "the next call works", work, next)
		e.complete(completeRequest(next, "done"))
		e.wantWorked(next, "completed")
	})
	e.runSubtest("an asker that begins to work", func(e *env) {
		work := doubted.reach(e, e.newRequest(e.key()))
		req := e.askRequest(work)
		asker := e.claim(req)
		assert.NoError(e, e.tryExtend(asker, e.long), "a heartbeat")
		e.wantWorked(asker, "after a heartbeat", work)
		e.beginWork(asker)
		e.wantWorked(asker, "once it works", work, asker)
		e.beginWork(asker)
		e.wantWorked(asker, "after a repeat of that", work, asker)
		again := e.claim(req)
		e.wantWorked(again, "after a late repeat of its Acquire", work, asker)
		e.releaseInDoubt(asker)
		last := e.claim(e.askRequest(asker))
		e.wantWorked(last, "when both are asked about", work, asker)
	})
	e.runSubtest("who lost the record does not work", func(e *env) {
		work := doubted.reach(e, e.newRequest(e.key()))
		asker := e.claim(e.askRequest(work))
		e.releaseInDoubt(asker)
		next := e.claim(e.askRequest(asker))
		e.wantLeaseLost(next, e.tryBeginWork(asker), "the beginning of work, by an asker of before")
		e.wantWorked(next, "after that", work)
	})
	e.runSubtest("released", func(e *env) {
		strict := released.reach(e, e.newRequest(e.key()))
		next := e.claim(e.newRequest(strict.Key))
		e.wantWorked(next, "after a release under Refuse, which did nothing", next)
		loose := released.reach(e, e.rerunRequest(e.key()))
		next = e.claim(e.newRequest(loose.Key))
		e.wantWorked(next, "after a release under Reexecute, which may be of any error", loose, next)
		asked := doubted.reach(e, e.rerunRequest(e.key()))
		asker := e.claim(e.askRequest(asked))
		e.release(asker)
		next = e.claim(e.rerunRequest(asked.Key))
		e.wantWorked(next, "after an asker's release", asked, next)
	})
	e.runSubtest("takeovers", func(e *env) {
		r := lapsed.reach(e, e.rerunRequest(e.key()))
		want := []storeapi.Record{r}
		for range 2 {
			next := e.claim(e.rerunRequest(r.Key))
			want = append(want, next)
			e.wantWorked(next, "under Reexecute", want...)
			e.releaseInDoubt(next)
		}
		forced := e.resolveRequest(want[2])
		forced.Force = true
		next := e.claim(forced)
		e.wantWorked(next, "of one that does not only ask", append(want, next)...)
	})
	e.runSubtest("failed, and opened again", func(e *env) {
		r := failed.reach(e, e.newRequest(e.key()))
		asker := e.claim(e.askRequest(r))
		e.wantWorked(asker, "settled")
		e.release(asker)
		next := e.claim(e.newRequest(r.Key))
		e.wantWorked(next, "what a person has settled is not named", next)
	})
	e.runSubtest("more than are kept", func(e *env) {
		r := doubted.reach(e, e.rerunRequest(e.key()))
		want := []storeapi.Record{r}
		for len(want) < 17 {
			r = e.claim(e.rerunRequest(r.Key))
			want = append(want, r)
			e.wantWorked(r, fmt.Sprintf("%d attempts", len(want)), want...)
			assert.True(e, !r.EarlierCut, "%d attempts are kept", len(want))
			e.releaseInDoubt(r)
		}
		for range 2 {
			r = e.claim(e.rerunRequest(r.Key))
			want = append(want[1:], r)
			e.wantWorked(r, "the oldest is dropped", want...)
			assert.True(e, e.lookup(r.Key).EarlierCut, "the record says that there were more")
			e.releaseInDoubt(r)
		}
		r = e.claim(e.askRequest(r))
		assert.True(e, r.EarlierCut, "while it is asked about")
	})
}

// askRequest returns a resolve that only asks.
func (e *env) askRequest(r storeapi.Record) storeapi.AcquireRequest {
	req := e.resolveRequest(r)
	req.Asks = true
	return req
}

func (e *env) tryBeginWork(r storeapi.Record) error {
	return e.Store.Extend(e.ctx, storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: e.long, Works: true})
}

func (e *env) beginWork(r storeapi.Record) {
	e.Helper()
	assert.NoError(e, e.tryBeginWork(r), "the work of an asker begins")
}

// wantWorked wants the record to name these attempts, in this order, both in the answer r and in a
// lookup.
func (e *env) wantWorked(r storeapi.Record, what string, want ...storeapi.Record) {
	e.Helper()
	var names []storeapi.Worked
	for i := range want {
		names = append(names, storeapi.Worked{Attempt: want[i].Attempt, Fence: want[i].Fence})
	}
	now := e.lookup(r.Key)
	assert.Equal(e, now.MayHaveWorked(), names, "%s: attempts that may have worked", what)
	if now.Fence == r.Fence && now.State == r.State && now.Asks == r.Asks {
		assert.Equal(e, r.MayHaveWorked(), names, "%s: attempts that may have worked, in the answer of the call", what)
	}
}
