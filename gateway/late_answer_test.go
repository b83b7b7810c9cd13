package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// slow answers when the test lets it, after an effect.
func slow(t *testing.T, before, after string) (u *rawUpstream, answer chan struct{}) {
	t.Helper()
	answer = make(chan struct{})
	return newRawUpstream(t, func(c net.Conn, r *http.Request, _ int) bool {
		if warms(r) {
			return ok(c)
		}
		_, _ = io.WriteString(c, before)
		select {
		case <-answer:
		case <-t.Context().Done():
			return false
		}
		_, _ = io.WriteString(c, after)
		return true
	}), answer
}

// first sends a request until the gateway has sent it on: a machine that is too slow for the
// timeout of the answer lets it end before.
func first(t *testing.T, base, key string) (said string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		said = told(t, base, "POST", key, "x")
		if !strings.HasPrefix(said, "503 upstream-unreachable") && !strings.HasPrefix(said, "409 lease-lost") {
			break
		}
	}
	return said
}

// becomes sends duplicates until the answer is not in-progress. One that could not be sent in time
// is sent again.
func becomes(t *testing.T, base, key string) string {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		if said := first(t, base, key); !strings.HasPrefix(said, "409 in-progress") {
			return said
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "in progress for ever"
}

// TestLateAnswers tests that the client gets outcome-unknown at the time-out, that the gateway
// reads on, and that duplicates get the answer that came.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\n"
	for name, tt := range map[string]struct{ before, after, want string }{
		"before the head":         {"", head + "answered", "201"},
		"in the head":             {head[:20], head[20:] + "answered", "201"},
		"in a chunk":              {"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nansw", "ered\r\n0\r\n\r\n", "201"},
		"in the body":             {head + "answ", "ered", "201"},
		"a refusal":               {"", "HTTP/1.1 429 Slow Down\r\nContent-Length: 0\r\n\r\n", "429"},
		"a large answer":          {"", "HTTP/1.1 201 Created\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 2000000), "409 answer-not-kept"},
		"a large one that is cut": {"", "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("x", 2000000), "in doubt"},
		"garbage":                 {"", "no answer at all\r\n\r\n", "in doubt"},
	} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, kept connection %t", name, kept), func(t *testing.T) {
				t.Parallel()
				want := tt.want
				u, answer := slow(t, tt.before, tt.after)
				base := before(t, u, retrysafe.Policy{Lease: time.Minute}, 2*time.Second)
				if kept {
					u.warmUp(t, base)
				}
				assert.Equal(t, first(t, base, "k"), "504 outcome-unknown", "the first, at the time-out")
				assert.Contains(t, told(t, base, "POST", "k", "x"), "409 in-progress", "a repeat, before the answer")
				assert.Equal(t, u.effects.Load(), int64(1), "effects")
				close(answer)
				if want == "in doubt" {
					if strings.Contains(tt.after, "3000000") {
						u.hangUp()
					}
					want = "409 outcome-unknown"
				}
				assert.Equal(t, becomes(t, base, "k"), want, "a repeat, after it")
				sent := int64(1)
				if want == "429" { // the service said that nothing was done: the retry was sent
					sent = 2
				}
				assert.Equal(t, u.effects.Load(), sent, "requests that were sent")
			})
		}
	}
}

// TestNoAnswerBeforeMaxRun tests that the key is then in doubt, and that reading ends.
func TestNoAnswerBeforeMaxRun(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"", "HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\nhalf"} {
		u, _ := slow(t, head, "")
		base := before(t, u, retrysafe.Policy{Lease: 4 * time.Second, MaxRun: 4 * time.Second}, 1500*time.Millisecond)
		begun := time.Now()
		assert.Equal(t, first(t, base, "k"), "504 outcome-unknown", "the first")
		assert.Equal(t, becomes(t, base, "k"), "409 outcome-unknown", "in the end")
		assert.True(t, time.Since(begun) >= 4*time.Second, "it read on: %v", time.Since(begun))
		assert.Equal(t, u.effects.Load(), int64(1), "effects")
	}
}

// TestTimeoutUnderReexecute tests that the lease is left to expire, and that reading ends.
func TestTimeoutUnderReexecute(t *testing.T) {
	t.Parallel()
	u, _ := slow(t, "", "")
	base := before(t, u, retrysafe.Policy{Lease: 4 * time.Second, OnDoubt: retrysafe.Reexecute}, 2*time.Second)
	assert.Equal(t, first(t, base, "k"), "504 outcome-unknown", "the first")
	assert.Equal(t, becomes(t, base, "k"), "504 outcome-unknown", "the next run, after the lease")
	assert.Equal(t, u.effects.Load(), int64(2), "effects")
}

// TestCloseEndsLateReading tests that answers that are still awaited when the gateway closes are in
// doubt, and that Close waits for that.
func TestCloseEndsLateReading(t *testing.T) {
	t.Parallel()
	u, _ := slow(t, "", "")
	e := newEngine(t, memstore.New(nil), retrysafe.Policy{})
	log := new(lockedBuffer)
	g, base := serveGateway(t, e, &gateway.Options{
		Upstreams: []string{"http://" + u.addr}, TimeoutAnswer: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	assert.Equal(t, first(t, base, "k"), "504 outcome-unknown", "the first")
	_ = g.Close()
	assert.Equal(t, told(t, base, "POST", "k", "x"), "409 outcome-unknown", "a repeat")
	assert.Contains(t, log.String(), "cause=shutdown", "the log")
}

// TestSendingNeedsALease tests that if less than half of the lease is left when the request is
// about to be sent, the lease is renewed first, or nothing is sent.
func TestSendingNeedsALease(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault storetest.Fault
		want  string
		sent  int64
	}{
		"renewed": {0, "201", 1},
		"unknown": {storetest.LoseRequest, "503 store-unavailable 1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
			s := &held{Faulty: storetest.NewFaulty(memstore.New(nil), func(op string, _ int) storetest.Fault {
				if op == "extend" {
					return tt.fault
				}
				return 0
			})}
			base := serve(t, newEngine(t, s, retrysafe.Policy{Lease: 6 * time.Second}), &gateway.Options{Upstreams: []string{"http://" + u.addr}})
			said := "409 lease-lost 1"
			// A slow machine may lose the whole lease.
			for n := 0; said == "409 lease-lost 1" && n < 20; n++ {
				said = told(t, base, "POST", fmt.Sprint("k", n), "x")
			}
			assert.Equal(t, said, tt.want, "the answer")
			assert.Equal(t, u.effects.Load(), tt.sent, "requests that were sent")
			assert.True(t, s.Calls("extend") >= 1, "extends: %d", s.Calls("extend"))
		})
	}
	t.Run("taken over", func(t *testing.T) {
		t.Parallel()
		u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool { return ok(c) })
		s := &held{Faulty: storetest.NewFaulty(memstore.New(nil), nil), taken: true}
		base := serve(t, newEngine(t, s, retrysafe.Policy{Lease: 6 * time.Second}), &gateway.Options{Upstreams: []string{"http://" + u.addr}})
		assert.Equal(t, told(t, base, "POST", "k", "x"), "409 lease-lost 1", "the answer")
		assert.Equal(t, u.effects.Load(), int64(0), "requests that were sent")
	})
}

// held is a store whose reply to Acquire arrives when most of the lease has passed.
type held struct {
	*storetest.Faulty
	taken bool // in the meantime another call has put the record in doubt
}

func (s *held) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	got, err := s.Faulty.Acquire(ctx, r)
	if r.Finish != nil { // the check value of the secret
		return got, err
	}
	if err == nil && s.taken {
		err = s.Release(ctx, storeapi.ReleaseRequest{Key: r.Key, Owner: r.Owner, Fence: got.Record.Fence, InDoubt: true})
	}
	// of six seconds, and before the first heartbeat of the engine, which counts from now
	time.Sleep(3300 * time.Millisecond)
	return got, err
}
