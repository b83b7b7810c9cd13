package broken

import (
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// progressMistakes are mistakes in what is stored about half-done work.
func progressMistakes() []Broken {
	return []Broken{
		withRule("progress is dropped", "S19", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				req.Progress = nil
				return protocol.Extend(cur, now, &req)
			}
		}),
		withRule("a heartbeat wipes progress", "S19", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				next, err := protocol.Extend(cur, now, &req)
				if err == nil && req.Progress == nil {
					next.Answer = storeapi.Answer{}
				}
				return next, err
			}
		}),
		withRule("late progress undoes newer", "S19", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				next, err := protocol.Extend(cur, now, &req)
				if err == nil && req.Progress != nil {
					next.Answer = *req.Progress
				}
				return next, err
			}
		}),
		withRule("progress without the lease", "S19", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				next, err := protocol.Extend(cur, now, &req)
				if err == nil && req.Progress != nil {
					next.LeaseEnd, next.Updated, next.Expires = cur.LeaseEnd, cur.Updated, cur.Expires
				}
				return next, err
			}
		}),
		withRule("who lost the record may write progress", "S19", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				next, err := protocol.Extend(cur, now, &req)
				if err != nil && req.Progress != nil && cur.State == storeapi.StateInProgress {
					cur.Answer = *req.Progress
					return cur, nil
				}
				return next, err
			}
		}),
		withRule("a win forgets progress", "S19", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, status, write, err := protocol.Acquire(cur, now, floor, &req)
				if write && req.Finish == nil && next.Fence != cur.Fence {
					next.Answer = storeapi.Answer{}
				}
				return next, status, write, err
			}
		}),
		withRule("a release forgets progress", "S19", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, err := protocol.Release(cur, now, &req)
				if write && !req.InDoubt {
					next.Answer = storeapi.Answer{}
				}
				return next, write, err
			}
		}),
		withRule("a release forgets whose progress it is", "S19", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, err := protocol.Release(cur, now, &req)
				if write && !req.InDoubt {
					next.Fingerprint, next.Binding = nil, nil
				}
				return next, write, err
			}
		}),
		withRule("Complete leaves a part of progress", "S19", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				next, write, err := protocol.Complete(cur, now, &req)
				if write && cur.Answer.Size != 0 {
					next.Answer.Size, next.Answer.Digest = cur.Answer.Size, cur.Answer.Digest
				}
				return next, write, err
			}
		}),
	}
}
