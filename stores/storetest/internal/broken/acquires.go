package broken

import (
	"slices"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// acquireMistakes are mistakes in who may run.
func acquireMistakes() []Broken {
	return []Broken{
		withRule("a new key is read and then written", "S1", func(r *rules) {
			r.unlocks = func(cur row, _ micros) bool { return cur.State == 0 }
		}),
		withRule("a takeover is read and then written", "S5", func(r *rules) {
			r.unlocks = func(cur row, now micros) bool { return cur.InDoubt(now) && cur.OnDoubt == storeapi.Reexecute }
		}).mayFail("S16"),
		withRule("another caller renews the lease", "S2", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusInProgress {
					next.LeaseEnd, write = now+req.Lease.Microseconds(), true
				}
				return next, s, write, err
			}
		}),
		withRule("the request alone allows a takeover", "S5", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusInDoubt && req.OnDoubt == storeapi.Reexecute && cur.Owner != req.Owner {
					cur.OnDoubt = storeapi.Reexecute
					return protocol.Acquire(cur, now, floor, &req)
				}
				return next, s, write, err
			}
		}, "S8"),
		withRule("the record alone allows a takeover", "S5", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if cur.InDoubt(now) && cur.Owner != req.Owner && req.IfFence == 0 {
					req.OnDoubt = cur.OnDoubt
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S16"),
		withRule("a finished record is told before a mismatch", "S4", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if cur.State.Finished() {
					req.Fingerprint = nil
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S22"),
		withRule("a mismatch is told before another credential", "S4", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				first := req
				first.Binding = nil
				if next, s, write, err := protocol.Acquire(cur, now, floor, &first); s == storeapi.StatusMismatch {
					return next, s, write, err
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}),
		withRule("fingerprints of two algorithms are compared", "S4", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if cur.State != 0 && !cur.Absent(now) && req.IfFence == 0 && len(cur.Fingerprint) > 0 && len(req.Fingerprint) > 0 &&
					cur.Fingerprint[0] != req.Fingerprint[0] {
					return cur, storeapi.StatusMismatch, false, nil
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}),
		withRule("the fingerprint outlives a release", "S4", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				kept := cur.Fingerprint
				next, write, err := protocol.Release(cur, now, &req)
				next.Fingerprint = kept
				return next, write, err
			}
		}),
		withRule("a late Acquire is applied", "S15", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if now > req.NotAfter.UnixMicro() {
					req.NotAfter = protocol.Time(now)
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S22"),
		withRule("the owner's repeat is a new attempt", "S7", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusAcquired && write && next.Attempt == cur.Attempt && !cur.Absent(now) {
					next.Attempt++
					next.Fence++
				}
				return next, s, write, err
			}
		}, "S4", "S11", "S17", "S20"),
		withRule("an owner wins again after its own release", "S7", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if cur.State == storeapi.StateReleased && cur.Owner == req.Owner {
					cur.Owner = storeapi.Owner{}
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S8"),
		withRule("the fence is ignored", "S17", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if req.IfFence != 0 && !cur.Absent(now) {
					req.IfFence = cur.Fence
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S4", "S22"),
		withRule("a resolve keeps the fence", "S17", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if req.IfFence != 0 && s == storeapi.StatusAcquired {
					next.Fence = cur.Fence
				}
				return next, s, write, err
			}
		}, "S4", "S9", "S20", "S22"),
		withRule("a resolve brings its own policy", "S17", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if req.IfFence != 0 && req.Finish == nil && s == storeapi.StatusAcquired {
					next.OnDoubt = req.OnDoubt
				}
				return next, s, write, err
			}
		}),
		withRule("a resolve reopens what is completed", "S17", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				if req.IfFence == cur.Fence && cur.State == storeapi.StateCompleted {
					cur.State = storeapi.StateFailed
				}
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S22"),
		withRule("a resolve needs no force", "S17", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				req.Force = true
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S4", "S22"),
		withRule("a key need not be issued", "S12", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				req.MustBeIssued = false
				return protocol.Acquire(cur, now, floor, &req)
			}
		}, "S4"),
		withRule("another owner issues the key again", "S12", func(r *rules) {
			r.issue = func(cur row, now micros, req issueReq) (row, status, bool) {
				if cur.State == storeapi.StateIssued {
					cur.Owner = req.Owner
				}
				return protocol.Issue(cur, now, &req)
			}
		}),
		withRule("a key in use is issued", "S12", func(r *rules) {
			r.issue = func(cur row, now micros, req issueReq) (row, status, bool) {
				next, s, write := protocol.Issue(cur, now, &req)
				if s == storeapi.StatusAlreadyIssued && cur.State != storeapi.StateIssued {
					s = storeapi.StatusAcquired
				}
				return next, s, write
			}
		}),
		withRule("a used key expires as if it were not", "S12", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusAcquired && cur.State == storeapi.StateIssued {
					next.Expires = cur.Expires
				}
				return next, s, write, err
			}
		}),
		withRule("a repeat adopts another fingerprint", "S4", func(r *rules) {
			r.acquire = func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
				next, s, write, err := protocol.Acquire(cur, now, floor, &req)
				if s == storeapi.StatusAcquired && len(req.Fingerprint) > 0 {
					next.Fingerprint = slices.Clone(req.Fingerprint)
					write = write && next.Fence != cur.Fence // returned, but not stored
				}
				return next, s, write, err
			}
		}, "S17"),
	}
}
