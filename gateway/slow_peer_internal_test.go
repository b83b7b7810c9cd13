package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// deadlines records the deadlines of reads.
type deadlines struct {
	http.ResponseWriter
	all []time.Time
}

func (d *deadlines) FlushError() error { return nil }

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.all = append(d.all, t)
	return nil
}

// TestByteAtTheEnd: a byte of a body that arrives just as its exchange is ended, since nothing has
// moved for too long, does not take the deadline from the rest of the body: the server would wait
// for that.
func TestByteAtTheEnd(t *testing.T) {
	t.Parallel()
	w := &deadlines{ResponseWriter: httptest.NewRecorder()}
	var watch *peerWatch
	body := readerFunc(func(p []byte) (int, error) {
		watch.endQuiet()
		return copy(p, "x"), nil
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", body)
	r.ContentLength = 100
	r, watch = startPeerWatch(w, r, time.Hour, time.Hour)
	n, err := r.Body.Read(make([]byte, 1))
	assert.True(t, n == 1 && err == nil, "the byte: %d, %v", n, err)
	last := w.all[len(w.all)-1]
	assert.True(t, !last.IsZero() && !last.After(time.Now()), "the deadline: %v", w.all)
	before := len(w.all)
	_, _ = r.Body.Read(make([]byte, 1))
	for _, later := range w.all[before:] {
		assert.True(t, !later.IsZero() && !later.After(time.Now()), "a later deadline: %v", later)
	}
}

// TestAnswerOfAnEndedExchange: if an exchange was ended when its answer had been passed on, its
// connection ends: the rest of the body would be read as the next request. A failure says so
// itself.
func TestAnswerOfAnEndedExchange(t *testing.T) {
	t.Parallel()
	for _, failed := range []bool{false, true} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", readerFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
		r, watch := startPeerWatch(&deadlines{ResponseWriter: w}, r, time.Hour, time.Hour)
		watch.endSlow()
		if failed {
			assert.ErrorIs(t, closeIfEnded(w, r), errSlow, "why")
		}
		panicked := func() (p any) {
			defer func() { p = recover() }()
			watch.drainBody()
			return nil
		}()
		assert.Equal(t, panicked == http.ErrAbortHandler, !failed, "a failure was answered: %v, it panicked: %v", failed, panicked)
		assert.Equal(t, w.Header().Get("Connection"), map[bool]string{true: "close", false: ""}[failed], "the answer")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
