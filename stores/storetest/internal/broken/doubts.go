package broken

import "github.com/retrysafe/retrysafe/internal/protocol"

// doubtMistakes are mistakes in the time of a doubt.
func doubtMistakes() []Broken {
	return []Broken{
		withRule("a doubt begins again with each question", "S21", changeGranted(func(_, next *row, _ *acquireReq) { next.DoubtBegan = 0 })),
		withRule("a doubt begins again when it is given up", "S21", func(r *rules) {
			r.release = func(cur row, now micros, req releaseReq) (row, bool, error) {
				since := cur.DoubtBegan
				next, write, err := protocol.Release(cur, now, &req)
				next.DoubtBegan = since
				return next, write, err
			}
		}),
		withRule("a doubt outlives the beginning of work", "S21", func(r *rules) {
			r.extend = func(cur row, now micros, req extendReq) (row, error) {
				since := cur.DoubtBegan
				next, err := protocol.Extend(cur, now, &req)
				next.DoubtBegan = since
				return next, err
			}
		}),
		withRule("a live attempt is in doubt once it is taken over", "S21", changeGranted(func(cur, next *row, req *acquireReq) {
			if req.Asks && next.DoubtBegan == 0 {
				next.DoubtBegan = cur.Updated
			}
		})),
	}
}
