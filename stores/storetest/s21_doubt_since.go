package storetest

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// s21DoubtSince: a record in doubt says since when: since the end of its lease, or since it was
// given up, whichever was first. An attempt that only asks leaves that time as it is, however it
// ends without an answer. A doubt is over when somebody works, or the record is released or
// finished.
func s21DoubtSince(e *env) {
	for _, s := range []situation{lapsed, doubted} {
		e.runSubtest(s.name+", and asked about", func(e *env) {
			work := s.reach(e, e.newRequest(e.key()))
			since := work.DoubtSince
			assert.True(e, !since.IsZero() && !since.After(work.Now), "the record says since when: %v, now %v", since, work.Now)
			brief := e.askRequest(work)
			brief.Lease = e.short
			asker := e.claim(brief)
			e.doubtSince(asker, since, "while it is asked about")
			e.passLease(e.lookup(work.Key))
			e.doubtSince(asker, since, "after an asker that died")
			asker = e.claim(e.askRequest(asker))
			assert.NoError(e, e.tryExtend(asker, e.long), "a heartbeat")
			e.doubtSince(asker, since, "after a heartbeat of the next")
			e.releaseInDoubt(asker)
			e.doubtSince(asker, since, "after one without an answer")
			forced := e.askRequest(e.claim(e.askRequest(asker)))
			forced.Force = true
			asker = e.claim(forced)
			e.doubtSince(asker, since, "of one that took over a live asker")
			e.beginWork(asker)
			e.noDoubt(asker, "once it works")
			e.passTime(e.short)
			e.releaseInDoubt(asker)
			e.doubtSince(asker, e.lookup(work.Key).Updated, "after work of its own")
			asker = e.claim(e.askRequest(asker))
			e.release(asker)
			e.noDoubt(asker, "released")
			next := e.claim(e.newRequest(work.Key))
			e.noDoubt(next, "of the next call")
			e.complete(completeRequest(next, "done"))
			e.noDoubt(next, "completed")
		})
	}
	e.runSubtest("lost from a live lease", func(e *env) {
		work := running.reach(e, e.newRequest(e.key()))
		e.noDoubt(work, "in progress")
		forced := e.askRequest(work)
		forced.Force = true
		asker := e.claim(forced)
		e.noDoubt(asker, "taken over before there was a doubt")
		e.releaseInDoubt(asker)
		e.doubtSince(asker, e.lookup(work.Key).Updated, "given up by the asker")
	})
	e.runSubtest("given up after the lease had ended", func(e *env) {
		work := lapsed.reach(e, e.newRequest(e.key()))
		since := work.DoubtSince
		e.passTime(e.short)
		e.releaseInDoubt(work)
		e.doubtSince(work, since, "given up late")
		asker := e.claim(e.askRequest(work))
		e.releaseInDoubt(asker)
		e.doubtSince(asker, since, "asked about after that")
		e.complete(completeRequest(e.claim(e.askRequest(asker)), "done"))
		e.noDoubt(work, "completed")
	})
	e.runSubtest("a new try", func(e *env) {
		work := doubted.reach(e, e.rerunRequest(e.key()))
		e.doubtSince(work, work.Updated, "put in doubt")
		next := e.claim(e.rerunRequest(work.Key))
		e.noDoubt(next, "while the next attempt works")
	})
}

func (e *env) doubtSince(r storeapi.Record, want time.Time, what string) {
	e.Helper()
	got := e.lookup(r.Key)
	assert.True(e, isNear(got.DoubtSince, want), "%s: in doubt since %v, want %v", what, got.DoubtSince, want)
}

func (e *env) noDoubt(r storeapi.Record, what string) {
	e.Helper()
	got := e.lookup(r.Key).DoubtSince
	assert.True(e, got.IsZero(), "%s: in doubt since %v, want no doubt", what, got)
}
