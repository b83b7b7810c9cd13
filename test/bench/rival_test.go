package bench_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// serverEnv makes the test binary a server of the kind that it names, so that each server's CPU
// time can be measured as a process's.
const serverEnv = "RETRYSAFE_BENCH_SERVER"

func TestMain(m *testing.M) {
	kind := os.Getenv(serverEnv)
	if kind == "" {
		os.Exit(m.Run())
	}
	if err := serveRival(kind); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runs counts how often the handler of a server process ran.
var runs atomic.Int64

// serveRival prints its address. For each line that it reads it prints its CPU time in nanoseconds
// and the runs of the handler.
func serveRival(kind string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = sides[kind].serve(l) }()
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); { // ends with the parent
		used, err := cpuUsage()
		if err != nil {
			return err
		}
		fmt.Println(used.Nanoseconds(), runs.Load())
	}
	return nil
}

// side is one of the compared servers: how it serves, the field of its key, and what an answer must
// contain.
type side struct {
	serve func(net.Listener) error
	key   string
	shows string
}

var sides = map[string]side{
	"retrysafe": {serveOurs, "Idempotency-Key", "\r\nIdempotency-Replayed: true\r\n"},
	"fiber":     {serveFiber, "X-Idempotency-Key", "\r\nLocation: /orders/1\r\n"},
	"net/http":  {serveEmpty, "Idempotency-Key", "\r\nIdempotency-Replayed: true\r\n"},
}

func serveOurs(l net.Listener) error {
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("a secret of tests")})
	m := httpidem.New(e, &httpidem.Options{Tenant: func(*http.Request) (string, error) { return "ann", nil }})
	return http.Serve(l, m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		answerBare(w, r)
	})))
}

// serveEmpty is the upper limit for any middleware of net/http: a handler that answers the bytes of
// a replay.
func serveEmpty(l net.Listener) error {
	runs.Store(hotKeys) // it has no records: report one run of the handler for each key
	return http.Serve(l, http.HandlerFunc(answerReplayBytes))
}

// serveFiber is the rival with all defaults: its own server, and records in memory.
func serveFiber(l net.Listener) error {
	app := fiber.New()
	app.Use(idempotency.New())
	app.Post("/orders", func(c fiber.Ctx) error {
		runs.Add(1)
		c.Set("Content-Type", jsonType[0])
		c.Set("Location", location[0])
		return c.Status(http.StatusCreated).Send(answer)
	})
	return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
}

// process is a server in a separate process.
type process struct {
	side
	addr string
	in   io.Writer
	out  *bufio.Reader
}

func startRival(tb testing.TB, kind string) *process {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), serverEnv+"="+kind), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	p := &process{side: sides[kind], in: in, out: bufio.NewReader(out)}
	p.addr = p.readLine(tb)
	return p
}

func (p *process) readLine(tb testing.TB) string {
	tb.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		tb.Fatalf("the server process has ended: %v", err)
	}
	return strings.TrimSpace(s)
}

// cpuUsed asks the process for its CPU time, and how often its handler ran.
func (p *process) cpuUsed(tb testing.TB) (cpu time.Duration, runs int) {
	tb.Helper()
	_, _ = io.WriteString(p.in, "\n")
	if _, err := fmt.Sscan(p.readLine(tb), &cpu, &runs); err != nil {
		tb.Fatal(err)
	}
	return cpu, runs
}

const (
	conns   = 64
	hotKeys = 8
)

// sendLoad sends n requests over 64 connections, with the hot keys in turn, and checks every
// answer.
func (p *process) sendLoad(tb testing.TB, conns, n int, shows string) {
	tb.Helper()
	requests := make([][]byte, hotKeys)
	for i := range requests {
		requests[i] = wireRequest(p.key, fmt.Sprintf("8e03978e-40d5-43e8-bc93-6894a57f932%d", i))
	}
	var all sync.WaitGroup
	for range conns {
		all.Go(func() {
			if err := sendRequests(p.addr, requests, n/conns, shows); err != nil {
				tb.Error(err)
			}
		})
	}
	all.Wait()
}

// warmUp completes the hot keys and warms up, and checks that all later requests are replays.
func (p *process) warmUp(tb testing.TB, warm int) {
	tb.Helper()
	p.sendLoad(tb, 1, hotKeys, "")
	p.sendLoad(tb, conns, max(warm, conns*hotKeys), p.shows)
	p.onlyReplays(tb)
}

func (p *process) onlyReplays(tb testing.TB) {
	tb.Helper()
	if _, n := p.cpuUsed(tb); n != hotKeys {
		tb.Fatalf("the handler ran %d times for %d keys: these were no replays", n, hotKeys)
	}
}

// measureRound is one measurement: requests per second of the server's CPU time.
func (p *process) measureRound(tb testing.TB, n int) float64 {
	tb.Helper()
	before, _ := p.cpuUsed(tb)
	p.sendLoad(tb, conns, n, p.shows)
	after, _ := p.cpuUsed(tb)
	return float64(n/conns*conns) / (after - before).Seconds()
}

// BenchmarkRival compares a replay with that of fiber and its idempotency middleware, and with an
// empty handler of net/http: b.N requests each, in turn, nine rounds.
func BenchmarkRival(b *testing.B) {
	const rounds = 9
	kinds := slices.Sorted(maps.Keys(sides))
	all, got := map[string]*process{}, map[string][]float64{}
	for _, kind := range kinds {
		all[kind] = startRival(b, kind)
		all[kind].warmUp(b, b.N/4)
	}
	b.ResetTimer()
	for range rounds {
		for _, kind := range kinds {
			got[kind] = append(got[kind], all[kind].measureRound(b, max(b.N, conns)))
		}
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op")
	for _, kind := range kinds {
		all[kind].onlyReplays(b)
		b.ReportMetric(medianOf(got[kind]), kind+"-req/cpu-s")
		if kind == "fiber" {
			continue
		}
		ratios := make([]float64, rounds)
		for i := range ratios {
			ratios[i] = got[kind][i] / got["fiber"][i]
		}
		b.ReportMetric(medianOf(ratios), kind+"-ratio")
		b.ReportMetric(slices.Min(ratios), kind+"-ratio-least")
		b.ReportMetric(slices.Max(ratios), kind+"-ratio-most")
	}
}

func medianOf[N cmp.Ordered](all []N) N {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// TestRivals: both servers answer the same bytes, and replay.
func TestRivals(t *testing.T) {
	for kind := range sides {
		p := startRival(t, kind)
		p.warmUp(t, 0)
		if got := p.measureRound(t, conns); got <= 0 {
			t.Errorf("%s: %v requests per second", kind, got)
		}
	}
}

// wireRequest returns a request with a key, as sent over the wire.
func wireRequest(field, key string) []byte {
	const body = `{"item":"tea","cents":4200}`
	return []byte("POST /orders HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\n" + field + ": " + key +
		"\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// sendRequests sends n requests on one connection, one after the other in turn. It checks each
// answer for 201, the answer's bytes, and shows. The client does as little as possible, so that the
// server's part dominates.
func sendRequests(addr string, requests [][]byte, n int, shows string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	buf, created, must, end := make([]byte, 4096), []byte("HTTP/1.1 201 Created\r\n"), []byte(shows), answer[len(answer)-1]
	for i := range n {
		if _, err := conn.Write(requests[i%len(requests)]); err != nil {
			return err
		}
		for got := 0; ; {
			k, err := conn.Read(buf[got:])
			if err != nil {
				return err
			}
			if got += k; got >= len(created) && !bytes.HasPrefix(buf, created) {
				return fmt.Errorf("the answer is not what was expected:\n%s", buf[:got])
			}
			if buf[got-1] == end && bytes.HasSuffix(buf[:got], answer) {
				if !bytes.Contains(buf[:got], must) {
					return fmt.Errorf("the answer is not what was expected:\n%s", buf[:got])
				}
				break
			}
			if got == len(buf) {
				return io.ErrShortBuffer
			}
		}
	}
	return nil
}
