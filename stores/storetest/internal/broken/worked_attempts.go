package broken

import (
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// workedMistakes are mistakes in what is stored about attempts that may have worked.
func workedMistakes() []Broken {
	return []Broken{
		withRule("the fence of the work is lost to an asker", "S20", changeGranted(func(_, next *row, req *acquireReq) {
			if req.Asks {
				next.Earlier = nil
			}
		})),
		withRule("an asker counts as one that worked", "S20", changeGranted(func(_, next *row, _ *acquireReq) { next.Asks = false })),
		withRule("a takeover forgets the attempts before", "S20", changeGranted(func(_, next *row, _ *acquireReq) {
			if n := len(next.Earlier); n > 1 {
				next.Earlier = next.Earlier[n-1:]
			}
		})),
		withRule("what was released under Reexecute certainly did nothing", "S20", changeGranted(func(cur, next *row, _ *acquireReq) {
			if cur.State == storeapi.StateReleased {
				next.Earlier = cur.Earlier
			}
		})),
		withRule("earlier attempts without bounds are cut and not told", "S20", changeGranted(func(_, next *row, _ *acquireReq) { next.EarlierCut = false })),
		withRule("a beginning of work is not kept", "S20", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				req.Works = false
				return protocol.Extend(cur, now, &req)
			}
		}, "S21"),
		withRule("a heartbeat makes an asker a worker", "S20", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				req.Works = true
				return protocol.Extend(cur, now, &req)
			}
		}, "S21"),
		withRule("Complete keeps earlier attempts", "S20", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				next, write, err := protocol.Complete(cur, now, &req)
				next.Earlier = cur.Earlier
				return next, write, err
			}
		}),
	}
}

// changeGranted is a mistake in the record of a claim that was granted.
func changeGranted(change func(cur, next *row, req *acquireReq)) func(*rules) {
	return func(r *rules) {
		r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
			next, status, write, err := protocol.Acquire(cur, now, floor, &req)
			if write && req.Finish == nil && next.Fence != cur.Fence {
				change(&cur, &next, &req)
			}
			return next, status, write, err
		}
	}
}
