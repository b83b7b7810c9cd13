package storetest

import (
	"fmt"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// s20Worked: a record names every attempt that may have worked, and none that only asked, until it
// is finished: through questions, takeovers, releases under Reexecute and resolves. It keeps at
// most 16 earlier ones, and then says that there were more.
func s20Worked(e *env) {
	e.run("an asker is not one of them", func(e *env) {
		work := doubted.reach(e, e.ask(e.key()))
		e.worked(work, "in doubt", work)
		first := e.win(e.asking(work))
		e.worked(first, "while it is asked about", work)
		assert.True(e, first.Asks, "the record says that it is asked about")
		e.doubt(first)
		brief := e.asking(first)
		brief.Lease = e.short
		second := e.win(brief)
		e.lapse(e.lookup(second.Key))
		third := e.win(e.asking(second))
		e.worked(third, "after three questions", work)
		e.release(third)
		e.worked(third, "released", work)
		next := e.win(e.ask(work.Key))
		e.worked(next, "the next call works", work, next)
		e.complete(ending(next, "done"))
		e.worked(next, "completed")
	})
	e.run("an asker that begins to work", func(e *env) {
		work := doubted.reach(e, e.ask(e.key()))
		req := e.asking(work)
		asker := e.win(req)
		assert.NoError(e, e.tryExtend(asker, e.long), "a heartbeat")
		e.worked(asker, "after a heartbeat", work)
		e.begins(asker)
		e.worked(asker, "once it works", work, asker)
		e.begins(asker)
		e.worked(asker, "after a repeat of that", work, asker)
		again := e.win(req)
		e.worked(again, "after a late repeat of its Acquire", work, asker)
		e.doubt(asker)
		last := e.win(e.asking(asker))
		e.worked(last, "when both are asked about", work, asker)
	})
	e.run("who lost the record does not work", func(e *env) {
		work := doubted.reach(e, e.ask(e.key()))
		asker := e.win(e.asking(work))
		e.doubt(asker)
		next := e.win(e.asking(asker))
		e.lost(next, e.tryBegin(asker), "the beginning of work, by an asker of before")
		e.worked(next, "after that", work)
	})
	e.run("released", func(e *env) {
		strict := released.reach(e, e.ask(e.key()))
		next := e.win(e.ask(strict.Key))
		e.worked(next, "after a release under Refuse, which did nothing", next)
		loose := released.reach(e, e.rerun(e.key()))
		next = e.win(e.ask(loose.Key))
		e.worked(next, "after a release under Reexecute, which may be of any error", loose, next)
		asked := doubted.reach(e, e.rerun(e.key()))
		asker := e.win(e.asking(asked))
		e.release(asker)
		next = e.win(e.rerun(asked.Key))
		e.worked(next, "after an asker's release", asked, next)
	})
	e.run("takeovers", func(e *env) {
		r := lapsed.reach(e, e.rerun(e.key()))
		want := []storeapi.Record{r}
		for range 2 {
			next := e.win(e.rerun(r.Key))
			want = append(want, next)
			e.worked(next, "under Reexecute", want...)
			e.doubt(next)
		}
		forced := e.resolve(want[2])
		forced.Force = true
		next := e.win(forced)
		e.worked(next, "of one that does not only ask", append(want, next)...)
	})
	e.run("failed, and opened again", func(e *env) {
		r := failed.reach(e, e.ask(e.key()))
		asker := e.win(e.asking(r))
		e.worked(asker, "settled")
		e.release(asker)
		next := e.win(e.ask(r.Key))
		e.worked(next, "what a person has settled is not named", next)
	})
	e.run("more than are kept", func(e *env) {
		r := doubted.reach(e, e.rerun(e.key()))
		want := []storeapi.Record{r}
		for len(want) < 17 {
			r = e.win(e.rerun(r.Key))
			want = append(want, r)
			e.worked(r, fmt.Sprintf("%d attempts", len(want)), want...)
			assert.True(e, !r.EarlierCut, "%d attempts are kept", len(want))
			e.doubt(r)
		}
		for range 2 {
			r = e.win(e.rerun(r.Key))
			want = append(want[1:], r)
			e.worked(r, "the oldest is dropped", want...)
			assert.True(e, e.lookup(r.Key).EarlierCut, "the record says that there were more")
			e.doubt(r)
		}
		r = e.win(e.asking(r))
		assert.True(e, r.EarlierCut, "while it is asked about")
	})
}

// asking returns a resolve that only asks.
func (e *env) asking(r storeapi.Record) storeapi.AcquireRequest {
	req := e.resolve(r)
	req.Asks = true
	return req
}

func (e *env) tryBegin(r storeapi.Record) error {
	return e.Store.Extend(e.ctx, storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: e.long, Works: true})
}

func (e *env) begins(r storeapi.Record) {
	e.Helper()
	assert.NoError(e, e.tryBegin(r), "the work of an asker begins")
}

// worked wants the record to name these attempts, in this order, both in the answer r and in a
// lookup.
func (e *env) worked(r storeapi.Record, what string, want ...storeapi.Record) {
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
