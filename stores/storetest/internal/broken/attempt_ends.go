package broken

import (
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// ownerMistakes are mistakes in who owns a record.
func ownerMistakes() []Broken {
	return []Broken{
		withRule("the fence alone owns", "S6", func(r *rules) {
			owner := func(cur row, f fence, o storeapi.Owner) storeapi.Owner {
				if cur.Fence == f {
					return cur.Owner
				}
				return o
			}
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				req.Owner = owner(cur, req.Fence, req.Owner)
				return protocol.Extend(cur, now, &req)
			}
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				req.Owner = owner(cur, req.Fence, req.Owner)
				return protocol.Complete(cur, now, &req)
			}
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				req.Owner = owner(cur, req.Fence, req.Owner)
				return protocol.Release(cur, now, &req)
			}
		}, "S19"),
		withRule("the owner alone owns", "S6", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				req.Fence = cur.Fence
				return protocol.Complete(cur, now, &req)
			}
		}),
		withRule("the attempt number owns", "S6", func(r *rules) {
			// With respect to ownership, the fence that a caller gets is the number of the attempt.
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				if req.Fence == storeapi.Fence(cur.Attempt) {
					req.Fence = cur.Fence
				}
				return protocol.Release(cur, now, &req)
			}
		}),
		withRule("Extend takes the record back", "S6", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				if cur.State == storeapi.StateInProgress && req.Fence < cur.Fence {
					cur.Owner, cur.Fence = req.Owner, req.Fence
				}
				return protocol.Extend(cur, now, &req)
			}
		}, "S5", "S16", "S17", "S19", "S20"),
		withRule("Extend ends a doubt", "S16", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				if cur.State == storeapi.StateInProgress && cur.LeaseEnd == 0 {
					cur.LeaseEnd = now
				}
				return protocol.Extend(cur, now, &req)
			}
		}, "S6", "S19"),
		withRule("Complete after the lease is refused", "S6", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				if cur.State == storeapi.StateInProgress && cur.LeaseEnd != 0 && cur.LeaseEnd <= now {
					return cur, false, storeapi.ErrLeaseLost
				}
				return protocol.Complete(cur, now, &req)
			}
		}, "S5", "S8"),
		withRule("Release wipes what is completed", "S6", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				if cur.State.Finished() {
					cur.State, cur.Answer = storeapi.StateInProgress, storeapi.Answer{}
				}
				return protocol.Release(cur, now, &req)
			}
		}),
		withRule("Release of another's record says that it was done", "S6", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, _ := protocol.Release(cur, now, &req)
				return next, write, nil
			}
		}, "S5", "S7", "S16", "S17"),
	}
}

// endMistakes are mistakes in how an attempt ends.
func endMistakes() []Broken {
	return []Broken{
		withRule("Complete overwrites another answer", "S7", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				if cur.State.Finished() && cur.Owner == req.Owner && cur.Fence == req.Fence {
					cur.Answer = req.Answer
					return cur, true, nil
				}
				return protocol.Complete(cur, now, &req)
			}
		}),
		withRule("a repeated Complete returns what it was given", "S7", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				next, write, err := protocol.Complete(cur, now, &req)
				next.Answer = req.Answer
				return next, write, err
			}
		}),
		withRule("a repeated Complete begins the retention anew", "S7", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				next, write, err := protocol.Complete(cur, now, &req)
				if err == nil && !write {
					next.Expires, write = now+next.Retention, true
				}
				return next, write, err
			}
		}),
		withRule("a repeated Complete is told by changed rows", "S7", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				next, write, err := protocol.Complete(cur, now, &req)
				if err == nil && !write {
					err = storeapi.ErrLeaseLost
				}
				return next, write, err
			}
		}, "S6", "S10", "S11"),
		withRule("a repeated Extend is told by changed rows", "S7", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				next, err := protocol.Extend(cur, now, &req)
				if err == nil && next.LeaseEnd == cur.LeaseEnd {
					err = storeapi.ErrLeaseLost
				}
				return next, err
			}
		}, "S6", "S14", "S19", "S20", "S21"),
		withRule("a repeated Release is told by changed rows", "S7", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, err := protocol.Release(cur, now, &req)
				if err == nil && !write {
					err = storeapi.ErrLeaseLost
				}
				return next, write, err
			}
		}, "S6"),
		withRule("a doubt waits for the end of the lease", "S16", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, err := protocol.Release(cur, now, &req)
				if req.InDoubt && write {
					next.LeaseEnd = max(cur.LeaseEnd, now+1)
				}
				return next, write, err
			}
		}, "S4", "S6", "S7", "S8", "S9", "S17", "S19", "S20", "S21"),
		withRule("the cause of a doubt is not kept", "S16", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				req.Cause = ""
				return protocol.Release(cur, now, &req)
			}
		}),
		withRule("nobody completes a doubt", "S16", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				if cur.State == storeapi.StateInProgress && cur.LeaseEnd == 0 {
					return cur, false, storeapi.ErrLeaseLost
				}
				return protocol.Complete(cur, now, &req)
			}
		}, "S6", "S8"),
		withRule("the owner wins back what it put in doubt", "S16", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if cur.State == storeapi.StateInProgress && cur.LeaseEnd == 0 && cur.Owner == req.Owner {
					cur.LeaseEnd = now
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}),
	}
}

// retentionMistakes are mistakes in how long a record and its fence are kept.
func retentionMistakes() []Broken {
	return []Broken{
		withRule("a finished record is answered until it is swept", "S8", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if cur.State == storeapi.StateCompleted && cur.Expired(now) {
					cur.Expires = 0
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S4", "S6", "S9", "S17"),
		withRule("a finished record goes early", "S8", func(r *rules) {
			r.changeRecord = func(rec storeapi.Record) storeapi.Record {
				if rec.State.Finished() && !rec.Expires.IsZero() && rec.Expires.Sub(rec.Now) < time.Second {
					return storeapi.Record{Key: rec.Key, Now: rec.Now}
				}
				return rec
			}
		}),
		withRule("the retention counts from the start", "S8", func(r *rules) {
			r.complete = func(cur row, now micros, req completeReq) (row, bool, error) {
				next, write, err := protocol.Complete(cur, now, &req)
				if write && next.Expires != 0 {
					next.Expires -= now - cur.Created
				}
				return next, write, err
			}
		}),
		withRule("a record in progress expires with its retention", "S8", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusAcquired && write {
					next.Expires = now + req.Retention.Microseconds()
				}
				return next, s, write, err
			}
		}, "S14"),
		withRule("a record in progress expires with its lease", "S8", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusAcquired && write {
					next.Expires = now + req.Lease.Microseconds()
				}
				return next, s, write, err
			}
		}, "S2", "S3", "S4", "S5", "S6", "S7", "S9", "S12", "S14", "S16", "S17", "S20", "S21", "S22"),
		withRule("a doubt under Refuse expires", "S8", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, err := protocol.Release(cur, now, &req)
				if write && req.InDoubt {
					next.Expires = now + next.Retention
				}
				return next, write, err
			}
		}, "S14"),
		withRule("a doubt under Reexecute never expires", "S8", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, err := protocol.Release(cur, now, &req)
				if write && req.InDoubt {
					next.Expires = 0
				}
				return next, write, err
			}
		}, "S14"),
		withRule("a released record is deleted", "S9", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				next, write, err := protocol.Release(cur, now, &req)
				if write && !req.InDoubt {
					next.Expires = now
				}
				return next, write, err
			}
		}, "S6", "S7", "S8", "S12", "S14", "S16", "S17", "S19", "S20", "S22"),
		withRule("a released record goes before its Acquire can", "S8", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				next.NotAfter = 0
				return next, s, write, err
			}
		}),
		withRule("the fence begins again after expiry", "S9", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusAcquired && next.Fence != cur.Fence {
					next.Fence = 1000
					if !cur.Absent(now) {
						next.Fence = cur.Fence + 1
					}
				}
				return next, s, write, err
			}
		}, "S6"),
		withRule("a value of its own attempt runs", "S22", changeFinished(func(cur, next *row, req *acquireReq) { next.State = storeapi.StateInProgress })),
		withRule("a value loses its cause", "S22", changeFinished(func(cur, next *row, req *acquireReq) { next.Cause = "" })),
		withRule("a value keeps the binding before", "S22", changeFinished(func(cur, next *row, req *acquireReq) {
			if req.IfFence != 0 {
				next.Binding = cur.Binding
			}
		})),
		withRule("a value keeps the retention before", "S22", changeFinished(func(cur, next *row, req *acquireReq) {
			if req.IfFence != 0 {
				next.Retention = cur.Retention
				next.Expires = next.Updated + cur.Retention
			}
		})),
		withRule("a value replaces what has begun meanwhile", "S22", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if req.Finish != nil && req.IfFence == 0 {
					cur = row{}
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}),
		withRule("the fence is forgotten by a sweep", "S9", func(r *rules) { r.forgets = true }),
		withRule("the fence stands still within a tick", "S9", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusAcquired {
					next.Fence = min(next.Fence, fence(max(now, 0)))
				}
				return next, s, write, err
			}
		}, "S4", "S17", "S20", "S22"),
		withRule("a sweep removes doubts under Refuse", "S14", func(r *rules) {
			r.isSwept = func(cur row, now micros) bool { return cur.Expired(now) || cur.InDoubt(now) }
		}),
		withRule("a sweep removes what is released", "S14", func(r *rules) {
			r.isSwept = func(cur row, now micros) bool { return cur.Expired(now) || cur.State == storeapi.StateReleased }
		}),
		withRule("a sweep forgets issued keys", "S14", func(r *rules) {
			r.isSwept = func(cur row, now micros) bool { return cur.Expired(now) && cur.State != storeapi.StateIssued }
		}),
		withRule("a sweep has no bounds", "S14", func(r *rules) {
			r.limit = func(int) int { return 1 << 30 }
		}),
	}
}

// changeFinished is a mistake in the record of a claim with Finish.
func changeFinished(change func(cur, next *row, req *acquireReq)) func(*rules) {
	return func(r *rules) {
		r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
			next, s, write, err := protocol.Acquire(cur, now, floor, &req)
			if req.Finish != nil && write {
				change(&cur, &next, &req)
			}
			return next, s, write, err
		}
	}
}
