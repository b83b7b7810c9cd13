package storetest

import (
	"crypto/sha256"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// s03Replay: a completed or failed record is answered with the stored answer, byte for byte, in
// that one call.
func s03Replay(e *env) {
	full := storeapi.Answer{Codec: "message/http", Body: []byte("HTTP/1.1 201 Created\r\nX: \x00\xff\r\n\r\n{}"), Kept: true}
	cut := storeapi.Answer{Codec: "message/http", Body: []byte("HTTP/1.1 200 OK\r\n\r\n"), Size: 5 << 20, Digest: sha256.Sum256(full.Body)}
	for _, c := range []struct {
		name   string
		state  storeapi.State
		answer storeapi.Answer
	}{
		{"completed", storeapi.StateCompleted, full},
		{"failed", storeapi.StateFailed, full},
		{"completed with an answer that is not kept", storeapi.StateCompleted, cut},
	} {
		e.run(c.name, func(e *env) {
			first := e.win(e.ask(e.key()))
			end := ending(first, "")
			end.State, end.Answer = c.state, c.answer
			done := e.complete(end)
			e.answered(done, c.state, c.answer, "what Complete returns")
			for _, ask := range []func(*env, storeapi.StoreKey) storeapi.AcquireRequest{(*env).ask, (*env).rerun} {
				trips := e.trips()
				got := e.acquire(ask(e, first.Key), storeapi.StatusFinished, "after the end")
				if e.Trips != nil {
					assert.Equal(e, e.trips()-trips, 1, "round trips of a replay")
				}
				e.answered(got, c.state, c.answer, "the replayed record")
				e.same(got, done, "the replayed record")
				assert.Equal(e, got.Attempt, first.Attempt, "attempt that made the answer")
				assert.Equal(e, got.Fence, first.Fence, "fence that made the answer")
				assert.Equal(e, got.LeaseLeft, 0, "lease left of a finished record")
			}
			e.unchanged(done, "a replay")
		})
	}
	e.run("many at once get the same answer", func(e *env) {
		done := completed.reach(e, e.ask(e.key()))
		for _, a := range atOnce(crowd, func(int) tried { return e.try(e.ask(done.Key)) }) {
			assert.NoError(e, a.err, "Acquire of a finished record")
			wantStatus(e, a.Status, storeapi.StatusFinished, "of a finished record")
			e.same(a.Record, done, "the replayed record")
		}
	})
	e.run("an answer after a takeover is the new one", func(e *env) {
		r := lapsed.reach(e, e.rerun(e.key()))
		next := e.win(e.rerun(r.Key))
		e.complete(ending(next, "new"))
		got := e.acquire(e.ask(r.Key), storeapi.StatusFinished, "after the takeover's end")
		e.answered(got, storeapi.StateCompleted, raw("new"), "answer")
		assert.Equal(e, got.Attempt, 2, "attempt that made the answer")
	})
}

func (e *env) trips() int {
	if e.Trips == nil {
		return 0
	}
	return e.Trips()
}
