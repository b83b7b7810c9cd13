package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// Tests of this file break a real part, read /metrics until the figures are those of the fault, let
// promtool say which rules of deploy/alerts.yml fire on them, mend the part, and do the same again.

// long is how long these tests wait for a figure: some rules want a fault that lasts for minutes.
const long = 10 * time.Minute

// figures are the samples of /metrics by their series.
type figures map[string]float64

// sampleLine matches a sample; the value of a label may have a space.
var sampleLine = regexp.MustCompile(`(?m)^(retrysafe_[a-z_]+(?:\{.*\})?) (\S+)$`)

func parseFigures(t *testing.T, text string) figures {
	t.Helper()
	all := figures{}
	for _, m := range sampleLine.FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		assert.NoError(t, err, "value of %s", m[1])
		all[m[1]] = v
	}
	return all
}

// scrape reads /metrics as Prometheus does: without an answer, up is 0 and nothing else is known.
func scrape(t *testing.T, base string) figures {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", http.NoBody)
	assert.NoError(t, err, "request")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return figures{"up": 0}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return figures{"up": 0}
	}
	all := parseFigures(t, string(text))
	all["up"] = 1
	return all
}

// await reads /metrics until ok, and returns the figures.
func await(t *testing.T, base, what string, ok func(figures) bool) (f figures) {
	t.Helper()
	poll(t, 200*time.Millisecond, long, func() bool {
		f = scrape(t, base)
		return ok(f)
	}, what)
	return f
}

// isCounter matches series that only grow.
var isCounter = regexp.MustCompile(`^[a-z_]+_(total|bucket|sum|count)(\{|$)`)

// seriesOf returns a series for a test of promtool: 20 minutes with the first figure, and 60 with
// the second, of which a counter grows for 20 as it has grown between the two.
func seriesOf(name string, before, after figures) string {
	shift := 0.0
	if strings.Contains(name, "_timestamp_seconds") {
		shift = float64(time.Now().Unix()) // the clock of promtool begins at zero
	}
	b, ok := before[name]
	begin := fmt.Sprintf("%fx20", b-shift)
	if !ok {
		begin = "_x21"
	}
	a, ok := after[name]
	switch {
	case !ok:
		return begin + " _x60"
	case isCounter.MatchString(name):
		grows := max(0, a-b)
		return fmt.Sprintf("%s %f+%fx20 %fx40", begin, a, grows, a+20*grows)
	}
	return fmt.Sprintf("%s %fx60", begin, a-shift)
}

// requireAlerts fails the test if not exactly the wanted rules are those that fire in the hour in
// which the figures are those of after, having been those of before.
func requireAlerts(t *testing.T, before, after figures, want ...string) {
	t.Helper()
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	var series, checks []map[string]any
	for name := range names {
		metric, labels, _ := strings.Cut(name, "{")
		labels = strings.TrimPrefix(strings.Join([]string{strings.TrimSuffix(labels, "}"), `job="retrysafe"`, `instance="i"`}, ","), ",")
		series = append(series, map[string]any{"series": metric + "{" + labels + "}", "values": seriesOf(name, before, after)})
	}
	for _, r := range alertRules(t) {
		fires := 0
		if slices.Contains(want, r.Alert) {
			fires = 1
		}
		checks = append(checks, map[string]any{
			"expr":      fmt.Sprintf(`(count(max_over_time(ALERTS{alertname=%q,alertstate="firing"}[19m])) > bool 0) or vector(0)`, r.Alert),
			"eval_time": "41m", "exp_samples": []any{map[string]any{"labels": "{}", "value": fires}},
		})
	}
	path, err := filepath.Abs(deployed + "alerts.yml")
	assert.NoError(t, err, "path")
	text, err := json.MarshalIndent(map[string]any{
		"rule_files": []string{path}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": checks}},
	}, "", " ") // JSON is YAML
	assert.NoError(t, err, "test of rules")
	file := filepath.Join(t.TempDir(), "figures.yml")
	assert.NoError(t, os.WriteFile(file, text, 0o600), "test of rules")
	runPromtool(t, "test", "rules", file)
}

// breakableService is a service that answers 201, or as broken says.
type breakableService struct {
	*httptest.Server
	broken atomic.Value // of type string: "cut", "500" or "slow"
}

func newBreakableService(t *testing.T) *breakableService {
	t.Helper()
	s := new(breakableService)
	s.broken.Store("")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch s.broken.Load() {
		case "cut":
			panic(http.ErrAbortHandler)
		case "500":
			w.WriteHeader(http.StatusInternalServerError)
			return
		case "slow":
			select {
			case <-time.After(11 * time.Second):
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(http.StatusCreated)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// postSome sends n requests with keys of their own, at once.
func postSome(t *testing.T, base, name string, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { postPayment(t, base, fmt.Sprint(name, "-", i, "-of-a-test")) })
	}
	all.Wait()
}

// startMonitored starts a gateway with an address for operators, and returns both addresses.
func startMonitored(t *testing.T, args ...string) (base, operators string) {
	t.Helper()
	admin := "127.0.0.1:" + freePorts(t, 1)[0]
	_, base, _ = startGateway(t, append([]string{"--listen", "127.0.0.1:0", "--admin", admin}, args...)...)
	return base, "http://" + admin
}

const (
	silentStore  = "retrysafe_store_silent_seconds"
	staleDoubts  = "retrysafe_doubts_stale_seconds"
	youngDoubts  = `retrysafe_doubts{age="5m"}`
	failedClaims = `retrysafe_store_errors_total{op="acquire"}`
)

func (f figures) doubts() (n float64) {
	for _, age := range []string{"5m", "1h", "24h", "older"} {
		n += f[`retrysafe_doubts{age="`+age+`"}`]
	}
	return n
}

// TestAlertsOfTheStore: a Redis that is frozen, and one that has died. The alert about a doubt
// stays while no process can count, and ends when an operator has resolved it.
func TestAlertsOfTheStore(t *testing.T) {
	t.Parallel()
	redis := servertest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	up, store := newBreakableService(t), "redis://"+redis.Addr
	base, operators := startMonitored(t, "--upstream", up.URL, "--store", store)
	postSome(t, base, "good", 3)
	well := await(t, operators, "it is well", func(f figures) bool {
		_, counted := f[youngDoubts]
		return counted && f[silentStore] < 10 && f[staleDoubts] < 20
	})
	requireAlerts(t, well, well)
	up.broken.Store("cut")
	status, body, _ := postPayment(t, base, "in-doubt")
	assert.Equal(t, status, 502, "a request that is cut: %s", body)
	up.broken.Store("")
	doubt := await(t, operators, "the doubt is counted", func(f figures) bool { return f.doubts() == 1 })
	requireAlerts(t, doubt, doubt, "RetrysafeDoubts")

	redis.Pause()
	status, body, _ = postPayment(t, base, "frozen")
	assert.Equal(t, status, 503, "the store is frozen: %s", body)
	frozen := await(t, operators, "the store is silent", func(f figures) bool { return f[silentStore] > 30 && f[staleDoubts] > 120 && f[failedClaims] > 0 })
	assert.Equal(t, frozen.doubts(), 1.0, "the doubt while the store is frozen")
	requireAlerts(t, doubt, frozen, "RetrysafeDoubts", "RetrysafeDoubtsUnknown", "RetrysafeStoreSilent", "RetrysafeStoreErrors", "RetrysafeErrorBudget", "RetrysafeErrorBudgetSlow")
	redis.Resume()
	mended := await(t, operators, "the store answers", func(f figures) bool { return f[silentStore] < 10 && f[staleDoubts] < 20 })
	requireAlerts(t, mended, mended, "RetrysafeDoubts")

	redis.Kill()
	dead := await(t, operators, "the store has died", func(f figures) bool {
		postPayment(t, base, "dead")
		return f[silentStore] > 30 && f[failedClaims] > mended[failedClaims]
	})
	assert.Equal(t, dead.doubts(), 1.0, "the doubt while the store is dead")
	requireAlerts(t, mended, dead, "RetrysafeDoubts", "RetrysafeStoreSilent", "RetrysafeStoreErrors", "RetrysafeErrorBudget", "RetrysafeErrorBudgetSlow")
	redis.Restart(t)
	again := await(t, operators, "the store is back", func(f figures) bool { return f[silentStore] < 10 && f[staleDoubts] < 20 && f.doubts() == 1 })
	requireAlerts(t, again, again, "RetrysafeDoubts")

	resolveOnlyDoubt(t, store)
	done := await(t, operators, "the doubt is resolved", func(f figures) bool { return f.doubts() == 0 && f[staleDoubts] < 20 })
	requireAlerts(t, done, done)
}

// TestAlertOfAnOldDoubt: a doubt that an operator leaves for two hours, which pass at once, pages
// once more, and no longer when it is resolved.
func TestAlertOfAnOldDoubt(t *testing.T) {
	t.Parallel()
	up, file := newBreakableService(t), filepath.Join(t.TempDir(), "records.db")
	base, operators := startMonitored(t, "--upstream", up.URL, "--store", "sqlite:"+file)
	up.broken.Store("cut")
	status, body, _ := postPayment(t, base, "in-doubt")
	assert.Equal(t, status, 502, "a request that is cut: %s", body)
	young := await(t, operators, "the doubt is counted", func(f figures) bool { return f.doubts() == 1 })
	requireAlerts(t, young, young, "RetrysafeDoubts")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	assert.NoError(t, err, "open")
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "UPDATE retrysafe_records SET updated = updated - 7200000000 WHERE state <> 3")
	assert.NoError(t, err, "age")
	old := await(t, operators, "the doubt is old", func(f figures) bool { return f["retrysafe_oldest_doubt_seconds"] > 3600 })
	requireAlerts(t, old, old, "RetrysafeDoubts", "RetrysafeOldDoubt")
	resolveOnlyDoubt(t, "sqlite:"+file)
	done := await(t, operators, "the doubt is resolved", func(f figures) bool { return f.doubts() == 0 && f["retrysafe_oldest_doubt_seconds"] == 0 })
	requireAlerts(t, done, done)
}

// resolveOnlyDoubt says that nothing was done for the only request in doubt of a store.
func resolveOnlyDoubt(t *testing.T, store string) {
	t.Helper()
	out, code := runToEnd(t, newCommand(t, "keys", "list", "--in-doubt", "--json", "--store", store, "--namespace", "app"))
	assert.Equal(t, code, 0, "keys list: %s", out)
	var listed struct {
		Hash  string
		Fence json.Number
	}
	line, _, _ := strings.Cut(out, "\n")
	assert.NoError(t, json.Unmarshal([]byte(line), &listed), "keys list: %s", out)
	out, code = runToEnd(t, newCommand(t, "keys", "release", listed.Hash, "--fence", listed.Fence.String(), "--reason", "a test", "--store", store, "--namespace", "app"))
	assert.Equal(t, code, 0, "keys release: %s", out)
}

// TestAlertsOfTheService: a service that nothing listens for, by requests and by health checks; one
// that answers 500; and one that is slow.
func TestAlertsOfTheService(t *testing.T) {
	t.Parallel()
	up := newBreakableService(t)
	address := up.Listener.Addr().String()
	proxy := servertest.StartProxy(t, address)
	base, operators := startMonitored(t, "--upstream", up.URL, "--store", "memory:")
	postSome(t, base, "good", 20)
	well := await(t, operators, "it is well", func(f figures) bool { return f[`retrysafe_answers_total{class="2xx",route="default"}`] == 20 })
	requireAlerts(t, well, well)
	up.broken.Store("500")
	postSome(t, base, "broken", 20)
	broken := await(t, operators, "errors of the service", func(f figures) bool { return f[`retrysafe_answers_total{class="5xx",route="default"}`] == 20 })
	requireAlerts(t, well, broken, "RetrysafeErrorBudget", "RetrysafeErrorBudgetSlow")
	up.broken.Store("slow")
	postSome(t, base, "slow", 20)
	slow := await(t, operators, "slow answers", func(f figures) bool { return f[`retrysafe_answers_total{class="2xx",route="default"}`] == 40 })
	requireAlerts(t, broken, slow, "RetrysafeSlow")
	up.broken.Store("")
	postSome(t, base, "well", 20)
	again := await(t, operators, "good answers", func(f figures) bool { return f[`retrysafe_answers_total{class="2xx",route="default"}`] == 60 })
	requireAlerts(t, slow, again)

	file := filepath.Join(t.TempDir(), "gateway.yaml")
	assert.NoError(t, os.WriteFile(file, []byte("upstream: http://"+proxy.Addr+"\nstore: memory\nhealth: {path: /, every: 100ms}\n"), 0o600), "file")
	_, watched := startMonitored(t, "--config", file)
	state := `retrysafe_upstream_up{upstream="` + proxy.Addr + `"}`
	good := await(t, watched, "a service that is well", func(f figures) bool { return f[state] == 1 })
	proxy.Cut()
	cut := await(t, watched, "a service whose health check fails", func(f figures) bool { return f["up"] == 1 && f[state] == 0 })
	requireAlerts(t, good, cut, "RetrysafeUpstreamDown")
	proxy.Mend()
	mended := await(t, watched, "it is well again", func(f figures) bool { return f[state] == 1 })
	requireAlerts(t, mended, mended)

	up.Close()
	failures := `retrysafe_upstream_failures_total{upstream="` + address + `"}`
	gone := await(t, operators, "nothing listens", func(f figures) bool {
		postSome(t, base, fmt.Sprint("gone-", time.Now().UnixNano()), 3)
		return f[failures] >= 6
	})
	requireAlerts(t, again, gone, "RetrysafeUpstreamDown", "RetrysafeErrorBudget", "RetrysafeErrorBudgetSlow")
	l, err := net.Listen("tcp", address)
	assert.NoError(t, err, "listen again")
	next := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })}}
	next.Start()
	t.Cleanup(next.Close)
	eventually(t, func() bool {
		status, _, _ := postPayment(t, base, fmt.Sprint("back-", time.Now().UnixNano()))
		return status == 201
	}, "the service is back")
	back := await(t, operators, "it is used again", func(f figures) bool { return f[`retrysafe_upstream_up{upstream="`+address+`"}`] == 1 })
	postSome(t, base, "back", 5)
	requireAlerts(t, back, back)
}

// TestAlertOfADeadProcess: a gateway that was killed, and one that is there again.
func TestAlertOfADeadProcess(t *testing.T) {
	t.Parallel()
	up, admin := newBreakableService(t), "127.0.0.1:"+freePorts(t, 1)[0]
	args := []string{"--listen", "127.0.0.1:0", "--admin", admin, "--upstream", up.URL, "--store", "memory:"}
	process, _, _ := startGateway(t, args...)
	well := await(t, "http://"+admin, "it is there", func(f figures) bool { return f["up"] == 1 })
	killProcess(process)
	dead := await(t, "http://"+admin, "it is dead", func(f figures) bool { return f["up"] == 0 })
	requireAlerts(t, well, dead, "RetrysafeDown")
	// it was taken out of the configuration of Prometheus
	requireAlerts(t, well, figures{}, "RetrysafeAbsent")
	startGateway(t, args...)
	again := await(t, "http://"+admin, "it is back", func(f figures) bool { return f["up"] == 1 })
	requireAlerts(t, again, again)
}

// writeCertificateUntil writes a certificate for 127.0.0.1 and its key.
func writeCertificateUntil(t *testing.T, cert, key string, end time.Time) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err, "key")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: end.Add(-400 * 24 * time.Hour), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	assert.NoError(t, err, "certificate")
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	assert.NoError(t, err, "key")
	assert.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600), "file")
	assert.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600), "file")
}

// TestAlertsOfCertificates: each file that the gateway reads has a figure, which changes at a
// reload: one that has expired, one with ten days left, and one with a year.
func TestAlertsOfCertificates(t *testing.T) {
	t.Parallel()
	dir, day := t.TempDir(), 24*time.Hour
	cert, clients, upstreams, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "clients.pem"), filepath.Join(dir, "upstreams.pem"), filepath.Join(dir, "key.pem")
	for _, path := range []string{clients, upstreams, cert} { // the last key is that of the server
		writeCertificateUntil(t, path, key, time.Now().Add(365*day))
	}
	admin, file := "127.0.0.1:"+freePorts(t, 1)[0], filepath.Join(dir, "gateway.yaml")
	text := "upstream: https://127.0.0.1:1\nstore: memory\nupstream_ca: upstreams.pem\ntls: {cert: cert.pem, key: key.pem, client_ca: clients.pem}\n"
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "file")
	process, _, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0", "--admin", admin)
	well := scrape(t, "http://"+admin)
	requireAlerts(t, well, well)
	series := func(use, path string) string {
		return fmt.Sprintf(`retrysafe_certificate_expires_timestamp_seconds{file=%q,use=%q}`, path, use)
	}
	for use, path := range map[string]string{"server": cert, "client_ca": clients, "upstream_ca": upstreams} {
		for left, want := range map[time.Duration][]string{
			-day: {"RetrysafeCertificateExpires", "RetrysafeCertificateExpired"}, 10 * day: {"RetrysafeCertificateExpires"},
		} {
			mine := key
			if use != "server" {
				mine = filepath.Join(dir, "other.pem")
			}
			end := time.Now().Add(left)
			writeCertificateUntil(t, path, mine, end)
			hangUp(t, process, log, "configuration reloaded")
			bad := scrape(t, "http://"+admin)
			assert.Equal(t, bad[series(use, path)], float64(end.Unix()), "%s with %v left", use, left)
			requireAlerts(t, well, bad, want...)
			writeCertificateUntil(t, path, mine, time.Now().Add(365*day))
			hangUp(t, process, log, "configuration reloaded")
			good := scrape(t, "http://"+admin)
			requireAlerts(t, good, good)
		}
	}
}

// TestAlertOfTheConsole: wrong tokens are counted, and those who may not resolve are not among
// them.
func TestAlertOfTheConsole(t *testing.T) {
	t.Parallel()
	making := newCommand(t, "console", "token", "ann")
	var said strings.Builder
	making.Stderr = &said
	line, err := making.Output()
	assert.NoError(t, err, "token")
	_, token, _ := strings.Cut(said.String(), ":\n")
	token, _, _ = strings.Cut(token, "\n")
	dir, admin := t.TempDir(), "127.0.0.1:"+freePorts(t, 1)[0]
	file := filepath.Join(dir, "gateway.yaml")
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "tokens"), line, 0o600), "tokens")
	assert.NoError(t, os.WriteFile(file, []byte("upstream: http://127.0.0.1:1\nstore: memory\nadmin: "+admin+"\noperators: {tokens: tokens}\n"), 0o600), "file")
	startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	logIn := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/api/v1/me", http.NoBody)
		assert.NoError(t, err, "request")
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "log-in")
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	well := scrape(t, "http://"+admin)
	assert.Equal(t, logIn(token), 200, "with the token")
	for range 25 {
		assert.Equal(t, logIn("rs_wrong"), 401, "with a wrong token")
	}
	bad := scrape(t, "http://"+admin)
	assert.Equal(t, bad[`retrysafe_console_refused_total{code="unauthenticated"}`], 25.0, "refused")
	requireAlerts(t, well, bad, "RetrysafeConsoleRefused")
	assert.Equal(t, logIn(token), 200, "with the token again")
	requireAlerts(t, bad, scrape(t, "http://"+admin))
}

// TestAlertOfIDs: a server of ids whose store has died gives those that it has, and then none.
func TestAlertOfIDs(t *testing.T) {
	t.Parallel()
	redis := servertest.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	_, base := startIDs(t, "--store", "redis://"+redis.Addr, "--tag", "order:1")
	status, body, _ := fetchURL(t, base+"/api/segment/get/order")
	assert.Equal(t, status, 200, "an id: %s", body)
	well := scrape(t, base)
	requireAlerts(t, well, well)
	redis.Kill()
	const away = `retrysafe_ids_errors_total{kind="segment",reason="away"}`
	dead := await(t, base, "no ids are left", func(f figures) bool {
		fetchURL(t, base+"/api/segment/get/order")
		return f[away] > 0
	})
	requireAlerts(t, well, dead, "RetrysafeIDsRefused")
	redis.Restart(t)
	eventually(t, func() bool {
		status, _, _ := fetchURL(t, base+"/api/segment/get/order")
		return status == 200
	}, "ids are given again")
	again := scrape(t, base)
	requireAlerts(t, again, again)
}
