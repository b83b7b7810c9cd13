package storetest

import (
	"crypto/sha256"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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
		e.runSubtest(c.name, func(e *env) {
			first := e.claim(e.newRequest(e.key()))
			end := completeRequest(first, "")
			end.State, end.Answer = c.state, c.answer
			done := e.complete(end)
			e.wantAnswered(done, c.state, c.answer, "what Complete returns")
			for _, ask := range []func(*env, storeapi.StoreKey) storeapi.AcquireRequest{(*env).newRequest, (*env).rerunRequest} {
				trips := e.countTrips()
				got := e.acquire(ask(e, first.Key), storeapi.StatusFinished, "after the end")
				if e.Trips != nil {
					assert.Equal(e, e.countTrips()-trips, 1, "round trips of a replay")
				}
				e.wantAnswered(got, c.state, c.answer, "the replayed record")
				e.wantSame(got, done, "the replayed record")
				assert.Equal(e, got.Attempt, first.Attempt, "attempt that made the answer")
				assert.Equal(e, got.Fence, first.Fence, "fence that made the answer")
				assert.Equal(e, got.LeaseLeft, 0, "lease left of a finished record")
			}
			e.wantUnchanged(done, "a replay")
		})
	}
	e.runSubtest("many at once get the same answer", func(e *env) {
		done := completed.reach(e, e.newRequest(e.key()))
		for _, a := range callAtOnce(crowd, func(int) acquireResult { return e.tryAcquire(e.newRequest(done.Key)) }) {
			assert.NoError(e, a.err, "Acquire of a finished record")
			wantStatus(e, a.Status, storeapi.StatusFinished, "of a finished record")
			e.wantSame(a.Record, done, "the replayed record")
		}
	})
	e.runSubtest("an answer after a takeover is the new one", func(e *env) {
		r := lapsed.reach(e, e.rerunRequest(e.key()))
		next := e.claim(e.rerunRequest(r.Key))
		e.complete(completeRequest(next, "new"))
		got := e.acquire(e.newRequest(r.Key), storeapi.StatusFinished, "after the takeover's end")
		e.wantAnswered(got, storeapi.StateCompleted, rawAnswer("new"), "answer")
		assert.Equal(e, got.Attempt, 2, "attempt that made the answer")
	})
}

func (e *env) countTrips() int {
	if e.Trips == nil {
		return 0
	}
	return e.Trips()
}
