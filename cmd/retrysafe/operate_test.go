package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
)

// newCountingService starts a service that counts its effects by key.
func newCountingService(t *testing.T) (*httptest.Server, func(key string) int64) {
	t.Helper()
	var effects sync.Map
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n, _ := effects.LoadOrStore(r.Header.Get("Idempotency-Key"), new(atomic.Int64))
		n.(*atomic.Int64).Add(1) //nolint:errcheck // nothing else is stored
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(up.Close)
	return up, func(key string) int64 {
		n, ok := effects.Load(key)
		if !ok {
			return 0
		}
		return n.(*atomic.Int64).Load() //nolint:errcheck // nothing else is stored
	}
}

// hangUp sends SIGHUP and waits until the gateway has logged the result.
func hangUp(t *testing.T, process *exec.Cmd, log *output, want string) {
	t.Helper()
	before := strings.Count(log.String(), want)
	assert.NoError(t, process.Process.Signal(syscall.SIGHUP), "signal")
	eventually(t, func() bool { return strings.Count(log.String(), want) > before }, want+" in the log:\n"+log.String())
}

func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	poll(t, 5*time.Millisecond, patience, ok, what)
}

// poll calls ok until it is true, with pauses between the calls.
func poll(t *testing.T, pause, most time.Duration, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(most); !ok(); time.Sleep(pause) {
		assert.True(t, time.Now().Before(end), "it came within %v: %s", most, what)
	}
}

// TestReloadUnderLoad: the configuration is replaced again and again while requests run. Each
// request is answered, and has one effect.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	a, effectsA := newCountingService(t)
	b, effectsB := newCountingService(t)
	dir := t.TempDir()
	file, access := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "access.log")
	configure := func(upstreams, routes string) {
		text := fmt.Sprintf("upstream: [%s]\nstore: memory\nadmin: 127.0.0.1:0\naccess_log: %s\nroutes: %s\n", upstreams, access, routes)
		assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "file")
	}
	configure(a.URL, "[]")
	process, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var sent atomic.Int64
	for worker := range 8 {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("key-%d-%d", worker, i/2) // each twice
				r, _ := http.NewRequestWithContext(t.Context(), "POST", base+"/orders", strings.NewReader("{}"))
				r.GetBody = nil // the client must not repeat it
				r.Header = http.Header{"Idempotency-Key": {key}, "Authorization": {"Bearer opaque"}}
				resp, err := client.Do(r)
				if err != nil {
					t.Errorf("request: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != 201 || (resp.Header.Get("Idempotency-Replayed") == "true") != (i%2 == 1) {
					t.Errorf("request %d: status %d, replayed %q", i, resp.StatusCode, resp.Header.Get("Idempotency-Replayed"))
				}
				if n := effectsA(key) + effectsB(key); n != 1 {
					t.Errorf("%s has %d effects", key, n)
				}
				sent.Add(1)
			}
		})
	}
	for i := range 20 {
		upstreams, routes := []string{a.URL, b.URL, a.URL + ", " + b.URL}[i%3], "[]"
		if i%2 == 0 {
			routes = `[{match: "POST /orders", key: required, in_progress: "wait 5s"}]`
		}
		configure(upstreams, routes)
		hangUp(t, process, log, "configuration reloaded")
		if i%5 == 0 { // as log rotation does
			assert.NoError(t, os.Rename(access, fmt.Sprint(access, ".", i)), "rename")
			hangUp(t, process, log, "configuration reloaded")
		}
	}
	stop()
	all.Wait()
	assert.True(t, sent.Load() > 100, "requests: %d", sent.Load())
	t.Logf("%d requests over 24 reloads", sent.Load())
	lines := 0
	files, err := filepath.Glob(access + "*")
	assert.NoError(t, err, "glob")
	for _, f := range files {
		text, err := os.ReadFile(f)
		assert.NoError(t, err, "read")
		for l := range strings.Lines(string(text)) {
			assert.True(t, json.Valid([]byte(l)), "a line of the access log: %s", l)
			lines++
		}
	}
	assert.Equal(t, lines, int(sent.Load()), "lines of the access logs")
	assert.Equal(t, len(files), 5, "access logs")
}

// TestReloadOfMistakes: a bad file, or a change that takes a restart, changes nothing and logs why.
func TestReloadOfMistakes(t *testing.T) {
	t.Parallel()
	up, _ := newCountingService(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write := func(text string) {
		assert.NoError(t, os.WriteFile(file, []byte("upstream: "+up.URL+"\n"+text), 0o600), "file")
	}
	write("store: memory\n")
	process, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	for text, want := range map[string]string{
		"store: memory\nruotes: []\n":                    `:3:1: unknown field`,
		"store: sqlite:elsewhere.db\n":                   "store has changed, which takes a restart",
		"store: memory\nadmin: 127.0.0.1:0\n":            "admin has changed",
		"store: memory\nlimits: {header: 16KiB}\n":       "limits has changed",
		"store: memory\nroutes: [{match: \"POST a\"}]\n": "write it like POST /orders/**",
	} {
		write(text)
		hangUp(t, process, log, "not reloaded")
		assert.Contains(t, log.String(), strings.ReplaceAll(want, `"`, `\"`), "the reason")
		status, _, _ := postPayment(t, base, "k")
		assert.Equal(t, status, 201, "it serves on")
	}
	write("store: memory\nroutes: [{match: \"POST /orders\", key: \"off\"}]\n")
	hangUp(t, process, log, "configuration reloaded")
	_, _, header := postPayment(t, base, "k")
	assert.Equal(t, header.Get("Idempotency-Replayed"), "", "the new route guards nothing")
}

// writeCertificate writes a new certificate for 127.0.0.1.
func writeCertificate(t *testing.T, dir string, serial int64) (config string, trust *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err, "key")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	assert.NoError(t, err, "certificate")
	private, err := x509.MarshalPKCS8PrivateKey(key)
	assert.NoError(t, err, "key")
	cert, secret := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	assert.NoError(t, os.WriteFile(cert, public, 0o600), "file")
	assert.NoError(t, os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600), "file")
	trust = x509.NewCertPool()
	assert.True(t, trust.AppendCertsFromPEM(public), "pool")
	return fmt.Sprintf("tls: {cert: %s, key: %s}\n", cert, secret), trust
}

// TestTLSInFront: HTTP/2 over TLS, TLS to the upstream, and a new certificate without a restart.
func TestTLSInFront(t *testing.T) {
	t.Parallel()
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	assert.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}), 0o600), "file")
	config, trust := writeCertificate(t, dir, 1)
	file := filepath.Join(dir, "gateway.yaml")
	text := "upstream: " + up.URL + "\nupstream_ca: " + ca + "\nstore: memory\n" + config
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "file")
	process, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	base = strings.Replace(base, "http://", "https://", 1)
	ask := func(trust *x509.CertPool) (*http.Response, error) {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), "POST", base+"/orders", strings.NewReader("{}"))
		assert.NoError(t, err, "request")
		r.Header = http.Header{"Idempotency-Key": {"k"}, "Authorization": {"Bearer opaque"}}
		resp, err := (&http.Client{Transport: transport}).Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		return resp, err
	}
	resp, err := ask(trust)
	assert.NoError(t, err, "over TLS (%s)", log)
	assert.Equal(t, fmt.Sprint(resp.StatusCode, resp.ProtoMajor), "201 2", "status and version")
	_, next := writeCertificate(t, dir, 2)
	_, err = ask(next)
	assert.True(t, err != nil, "the new certificate is not there before the reload")
	hangUp(t, process, log, "configuration reloaded")
	resp, err = ask(next)
	assert.NoError(t, err, "with the new certificate")
	assert.Equal(t, fmt.Sprint(resp.TLS.PeerCertificates[0].SerialNumber, resp.Header.Get("Idempotency-Replayed")), "2true", "serial number, and a replay")
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), []byte("no key"), 0o600), "file")
	hangUp(t, process, log, "not reloaded")
	_, err = ask(next)
	assert.NoError(t, err, "after a key that is none")
}

// TestClientCertificates: with client_ca every client must present a certificate, whose subject is
// the tenant.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	counted, effects := newCountingService(t)
	var shown atomic.Value
	shop, err := url.Parse(counted.URL)
	assert.NoError(t, err, "address")
	up := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		shown.Store(r.In.Header.Get("Client-Cert"))
		r.SetURL(shop)
	}})
	t.Cleanup(up.Close)
	dir := t.TempDir()
	config, trust := writeCertificate(t, dir, 1)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NoError(t, err, "key")
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	assert.NoError(t, err, "authority")
	next := &x509.Certificate{
		SerialNumber: big.NewInt(8), Subject: pkix.Name{CommonName: "the next authority"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IsCA: true,
		BasicConstraintsValid: true, SubjectKeyId: []byte("next"),
	}
	authority := filepath.Join(dir, "clients.pem")
	assert.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600), "file")
	serial := int64(100)
	client := func(name string) *http.Client {
		serial++
		template := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), key)
		assert.NoError(t, err, "certificate")
		transport := &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: trust, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	file := filepath.Join(dir, "gateway.yaml")
	text := "upstream: " + up.URL + "\nstore: memory\n" + strings.Replace(config, "}", ", client_ca: "+authority+"}", 1) + "defaults: {tenant: {certificate: true}}\n"
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "file")
	process, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	ask := func(c *http.Client) string {
		r, err := http.NewRequestWithContext(t.Context(), "POST", strings.Replace(base, "http://", "https://", 1)+"/orders", strings.NewReader("{}"))
		assert.NoError(t, err, "request")
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Client-Cert", ":made up:")
		resp, err := c.Do(r)
		if err != nil {
			return "no answer"
		}
		_ = resp.Body.Close()
		return fmt.Sprint(resp.StatusCode, resp.Header.Get("Idempotency-Replayed"))
	}
	assert.Equal(t, ask(client("ann")), "201", "the first")
	assert.Equal(t, ask(client("ann")), "201true", "with a certificate that was renewed")
	assert.Equal(t, ask(client("bob")), "201", "somebody else with the same key")
	assert.Equal(t, ask(&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}}}), "no answer", "nobody")
	assert.Equal(t, effects("k"), 2, "effects")
	told, err := base64.StdEncoding.DecodeString(strings.Trim(shown.Load().(string), ":")) //nolint:errcheck,forcetypeassert // nothing else is stored
	assert.NoError(t, err, "Client-Cert")
	is, err := x509.ParseCertificate(told)
	assert.True(t, err == nil && is.Subject.CommonName == "bob", "the service is told who it was: %v", err)

	// The authorities are read again: another one is in the file, and the first is not any more.
	resumes := client("ann")
	resumes.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0) //nolint:errcheck,forcetypeassert // client made it
	assert.Equal(t, ask(resumes), "201true", "before the reload")
	resumes.CloseIdleConnections()
	der, err = x509.CreateCertificate(rand.Reader, next, next, key.Public(), key)
	assert.NoError(t, err, "another authority")
	assert.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600), "file")
	hangUp(t, process, log, "configuration reloaded")
	assert.Equal(t, ask(client("ann")), "no answer", "a certificate of an authority that was taken out")
	assert.Equal(t, ask(resumes), "no answer", "the same in a session that began before")
	ca = next
	assert.True(t, ask(client("ann")) != "no answer", "a certificate of the new authority is refused")
}

// TestDrain: at shutdown the gateway refuses new requests, says so, and waits for requests in
// flight, also for an answer whose client has been answered already.
func TestDrain(t *testing.T) {
	t.Parallel()
	entered, answer := make(chan struct{}, 8), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(up.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	text := "upstream: " + up.URL + "\nstore: sqlite:" + filepath.Join(dir, "r.db") + "\ndrain: 3m\ndefaults: {timeout_answer: 2s, lease: 30s}\n"
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "file")
	process, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	status, body, _ := postPayment(t, base, "k")
	assert.Equal(t, status, 504, "the client is told (%s)", body)
	assert.NoError(t, process.Process.Signal(syscall.SIGTERM), "signal")
	eventually(t, func() bool { return strings.Contains(log.String(), "stopping") }, "the end begins")
	eventually(t, func() bool { status, _, _ = postPayment(t, base, "new"); return status == 0 }, "no new requests")
	close(answer)
	assert.NoError(t, process.Wait(), "exit code (%s)", log)
	_, base, _ = startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	status, body, header := postPayment(t, base, "k")
	assert.Equal(t, fmt.Sprint(status, header.Get("Idempotency-Replayed")), "201true", "the answer that came while it ended (%s)", body)
	assert.Equal(t, len(entered), 1, "requests that reached the service")
}

// TestDrainThatIsTooShort: a request that does not finish in time is in doubt at once, long before
// its lease expires, and is not run again.
func TestDrainThatIsTooShort(t *testing.T) {
	t.Parallel()
	entered, never := make(chan struct{}, 8), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-never
	}))
	t.Cleanup(up.Close)
	t.Cleanup(func() { close(never) })
	dir := t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	text := "upstream: " + up.URL + "\nstore: sqlite:" + filepath.Join(dir, "r.db") + "\ndrain: 500ms\ndefaults: {lease: 60s, timeout_answer: 10s}\n"
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "file")
	process, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	go postPayment(t, base, "k")
	<-entered
	assert.NoError(t, process.Process.Signal(syscall.SIGTERM), "signal")
	assert.True(t, process.Wait() != nil, "the exit code says that something was cut off (%s)", log)
	_, base, _ = startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	_, body, _ := postPayment(t, base, "k")
	assert.Contains(t, body, "outcome-unknown", "a repeat")
	assert.True(t, strings.Contains(log.String(), "cause=shutdown") && !strings.Contains(log.String(), "closed\""), "log: %s", log)
	assert.Equal(t, len(entered), 0, "requests that reached the service again")
}

// TestManyConnections: 10000 clients with idle connections do not hold up 64 that send requests.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	const idle, busy, requests = 10_000, 64, 2_000
	var limit syscall.Rlimit
	assert.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit), "limit")
	assert.True(t, limit.Cur >= idle+1000, "this test opens %d connections and may have %d files; raise the limit: ulimit -n 20000", idle, limit.Cur)
	up, effects := newCountingService(t)
	_, base, _ := startGateway(t, "--listen", "127.0.0.1:0", "--upstream", up.URL, "--store", "memory:", "--in-progress", "wait 1m")
	request := func(key string) string {
		return "POST /orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer opaque\r\nIdempotency-Key: " + key + "\r\nContent-Length: 2\r\n\r\n{}"
	}
	exchange := func(c net.Conn, key string) error {
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, request(key)); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 201 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
	conns := make([]net.Conn, idle)
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	})
	var all sync.WaitGroup
	for part := range 16 {
		all.Go(func() {
			for i := part; i < idle; i += 16 {
				c, err := net.DialTimeout("tcp", strings.TrimPrefix(base, "http://"), patience)
				if err == nil {
					conns[i] = c
					err = exchange(c, fmt.Sprint("idle-", i%100))
				}
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	begun := time.Now()
	for worker := range busy {
		all.Go(func() {
			c, err := net.DialTimeout("tcp", strings.TrimPrefix(base, "http://"), patience)
			if err != nil {
				t.Errorf("a busy one: %v", err)
				return
			}
			defer c.Close()
			for i := range requests / busy {
				if err := exchange(c, fmt.Sprint("busy-", worker, "-", i)); err != nil {
					t.Errorf("a busy one: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d requests of %d connections beside %d idle ones took %v", requests, busy, idle, time.Since(begun))
	for i := 0; i < idle; i += 50 {
		if err := exchange(conns[i], fmt.Sprint("idle-", i%100)); err != nil {
			t.Fatalf("an idle connection, used again: %v", err)
		}
	}
	assert.Equal(t, effects("idle-0")+effects("busy-0-0"), int64(2), "effects of two keys")
}

// TestDrainDelay: /readyz first reports that the gateway will end, and requests are still accepted
// for a while.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	up, _ := newCountingService(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	admin := "127.0.0.1:" + freePorts(t, 1)[0]
	text := "upstream: " + up.URL + "\nstore: memory\ndrain_delay: 10s\nadmin: " + admin + "\n"
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600), "file")
	process, base, log := startGateway(t, "--config", file, "--listen", "127.0.0.1:0")
	ready := func() int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+admin+"/readyz", nil)
		assert.NoError(t, err, "request")
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "readyz")
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	assert.Equal(t, ready(), 200, "before")
	assert.NoError(t, process.Process.Signal(syscall.SIGTERM), "signal")
	eventually(t, func() bool { return ready() == 503 }, "it says so")
	status, body, _ := postPayment(t, base, "k")
	assert.Equal(t, status, 201, "a request meanwhile (%s)", body)
	assert.NoError(t, process.Wait(), "exit code (%s)", log)
}

// TestLogsQuoteNobody: what a service sends unasked may be another client's answer. The log must
// not contain it.
func TestLogsQuoteNobody(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}{\"iban\":\"secret\"}")
				}
			}()
		}
	}()
	_, base, log := startGateway(t, "--listen", "127.0.0.1:0", "--upstream", "http://"+l.Addr().String(), "--store", "memory:")
	for range 50 {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", base+"/orders", strings.NewReader("{}"))
		assert.NoError(t, err, "request")
		resp, err := testclient.HTTP.Do(r)
		assert.NoError(t, err, "answer")
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		assert.NoError(t, err, "body")
		assert.Equal(t, string(got), "{}", "the answer")
	}
	assert.True(t, !strings.Contains(log.String(), "iban"), "log: %s", log)
}
