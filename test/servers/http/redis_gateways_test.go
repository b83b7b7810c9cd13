package http_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// TestRedisTwoGateways sends every key to two gateways at the same moment. They are separate
// processes, which share a Redis and a service. Each key has one effect and one answer: both
// callers get it, or one gets 409 in-progress, retries, and then gets it. The long form has 100 000
// keys.
func TestRedisTwoGateways(t *testing.T) {
	t.Parallel()
	program := theCommand.Get(t)
	twoGateways(t, [2]string{program, program}, "redis://"+servers.StartRedis(t).Addr, 100)
}

func TestSoakRedisTwoGateways(t *testing.T) {
	t.Parallel()
	program := theCommand.Get(t)
	r := twoGateways(t, [2]string{program, program}, "redis://"+servers.StartRedis(t).Addr, 100_000)
	assert.True(t, r.inProgress.Load() > 0, "the two requests of a key never met")
}

func twoGateways(t *testing.T, programs [2]string, store string, keys int) *rivals {
	t.Helper()
	r := &rivals{}
	service := httptest.NewServer(http.HandlerFunc(r.serveOrder))
	t.Cleanup(service.Close)
	for i := range r.gateways {
		r.gateways[i] = startGatewayProcess(t, programs[i], "--upstream", service.URL, "--store", store)
	}
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

	begun := time.Now()
	next := make(chan string)
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for key := range next {
				r.compareAnswers(t, key)
			}
		})
	}
	for i := range keys {
		next <- fmt.Sprint("order-", i)
	}
	close(next)
	callers.Wait()

	doubles, effects := 0, 0
	r.effects.Range(func(_, n any) bool {
		count := int(n.(*atomic.Int64).Load()) //nolint:errcheck,forcetypeassert // serve stores only these
		effects += count
		if count != 1 {
			doubles++
		}
		return true
	})
	t.Logf("%d operations, each sent to both gateways at once: %d effects, %d doubles; %d were told 409 in-progress and asked again, %d got the first answer at once; %.1f s",
		keys, effects, doubles, r.inProgress.Load(), r.atOnce.Load(), time.Since(begun).Seconds())
	assert.Equal(t, doubles, 0, "keys that had more than one effect")
	assert.Equal(t, effects, keys, "effects")
	assert.Equal(t, r.inProgress.Load()+r.atOnce.Load(), int64(keys), "keys whose second caller has the first answer in the end")
	return r
}

// rivals are two gateways in front of one service, which counts its effects.
type rivals struct {
	gateways           [2]string
	client             *http.Client
	effects            sync.Map // of *atomic.Int64 by key
	all                atomic.Int64
	inProgress, atOnce atomic.Int64
	wrong              atomic.Int64
}

func (r *rivals) serveOrder(w http.ResponseWriter, req *http.Request) {
	n, _ := r.effects.LoadOrStore(req.Header.Get("Idempotency-Key"), new(atomic.Int64))
	n.(*atomic.Int64).Add(1) //nolint:errcheck,forcetypeassert // nothing else is stored
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "effect %d", r.all.Add(1))
}

// rivalAnswer is what one of the two callers gets.
type rivalAnswer struct {
	status   int
	body     string
	replayed bool
	err      error
}

func (r *rivals) sendKey(t *testing.T, base, key string) (a rivalAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/orders", strings.NewReader("tea"))
	if err != nil {
		return rivalAnswer{err: err}
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Authorization", "Bearer opaque")
	resp, err := r.client.Do(req)
	if err != nil {
		return rivalAnswer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return rivalAnswer{resp.StatusCode, string(body), resp.Header.Get("Idempotency-Replayed") == "true", err}
}

// compareAnswers sends a key to both gateways, and compares the answers.
func (r *rivals) compareAnswers(t *testing.T, key string) {
	t.Helper()
	var answers [2]rivalAnswer
	start := make(chan struct{})
	var both sync.WaitGroup
	for i, base := range r.gateways {
		both.Go(func() {
			<-start
			answers[i] = r.sendKey(t, base, key)
		})
	}
	close(start)
	both.Wait()
	refused := false
	for i, a := range answers {
		if a.status == http.StatusConflict && strings.Contains(a.body, `"code":"in-progress"`) {
			refused = true
			// The other one has its answer, so this one must be available.
			answers[i] = r.sendKey(t, r.gateways[i], key)
		}
	}
	first, second := answers[0], answers[1]
	switch {
	case first.err != nil, second.err != nil, first.status != http.StatusCreated, second.status != http.StatusCreated,
		first.body != second.body, first.replayed == second.replayed:
		if r.wrong.Add(1) <= 5 {
			t.Errorf("%s: %+v and %+v", key, first, second)
		}
	case refused:
		r.inProgress.Add(1)
	default:
		r.atOnce.Add(1)
	}
}

// startGatewayProcess runs a gateway until the test ends, and returns its address.
func startGatewayProcess(t *testing.T, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, append([]string{"gateway", "--namespace", "app", "--listen", "127.0.0.1:0"}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	c.Stderr = &log
	out, err := c.StdoutPipe()
	assert.NoError(t, err, "pipe")
	assert.NoError(t, c.Start(), "start a gateway")
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("a gateway said: %s", log.String())
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "gateway: http://"); ok {
			addr, _, _ := strings.Cut(rest, " ")
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return "http://" + addr
		}
	}
	t.Fatal("the gateway did not say where it listens")
	return ""
}
