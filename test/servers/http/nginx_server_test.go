package http_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

const nginxInstall = "nginx with Lua is not installed: apt-get install -y nginx libnginx-mod-http-lua lua-nginx-redis lua-nginx-string lua-cjson"

// nginxSecret keys the digests, in nginx and in Go.
const nginxSecret = "sixteen bytes or more"

// nginxSetup is what a test changes in the example configuration.
type nginxSetup struct {
	guard   string            // more options of the guard, in Lua
	replace map[string]string // of the text
	service string            // address of a service; empty: of origin
	origin  http.HandlerFunc
	redis   string // address of Redis; empty: a separate one
	secret  string // RETRYSAFE_SECRET; empty: nginxSecret
	brief   bool   // Redis has a second to answer, as in the example; else half a minute
}

// nginxFront is nginx with the example configuration in front of a service, with the records in
// Redis.
type nginxFront struct {
	t      *testing.T
	url    string
	redis  *servers.Redis
	starts atomic.Int64 // of the origin
	client *http.Client
	cmd    *exec.Cmd
	dir    string
}

// startNginx runs nginx until the test ends.
func startNginx(t *testing.T, s nginxSetup) *nginxFront {
	t.Helper()
	f := &nginxFront{t: t}
	if s.redis == "" {
		f.redis = servers.StartRedis(t)
		s.redis = f.redis.Addr
	}
	if s.service == "" {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.starts.Add(1)
			s.origin(w, r)
		}))
		t.Cleanup(up.Close)
		s.service = up.Listener.Addr().String()
	}
	said, err := f.startNginx(s)
	assert.NoError(t, err, "nginx: %s", said)
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	f.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return f
}

// exampleConf returns the example configuration with what a test needs.
func (f *nginxFront) exampleConf(s nginxSetup, addr string) string {
	f.t.Helper()
	example, err := os.ReadFile("../../../deploy/nginx/nginx.conf")
	assert.NoError(f.t, err, "the example")
	modules, err := filepath.Abs("../../../deploy/nginx")
	assert.NoError(f.t, err, "folder")
	host, port, err := net.SplitHostPort(s.redis)
	assert.NoError(f.t, err, "address of Redis")
	if !s.brief {
		port += ", timeout = 30"
	}
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += kind + "_temp_path " + f.dir + "/" + kind + "; "
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	text := user + string(example)
	changes := map[string]string{
		"/run/nginx.pid": f.dir + "/pid", "/var/log/nginx/error.log warn": f.dir + "/error.log info", "worker_processes auto": "worker_processes 2",
		"/etc/nginx/lua/?.lua": modules + "/?.lua", "http {\n": "http {\n  access_log off; " + temp + "\n",
		`host = "127.0.0.1", port = 6379`: `host = "` + host + `", port = ` + port, "server 127.0.0.1:9000": "server " + s.service,
		"listen 127.0.0.1:8080": "listen " + addr, "      lease = 30,\n": "      lease = 30,\n" + s.guard + "\n",
	}
	for old := range s.replace {
		delete(changes, old)
	}
	for _, all := range []map[string]string{changes, s.replace} {
		// The test's replacements come last: they may change a line again.
		for old, with := range all {
			assert.Equal(f.t, strings.Count(text, old), 1, "places of %q in the example", old)
			text = strings.Replace(text, old, with, 1)
		}
	}
	return text
}

// startNginx starts nginx and waits until it listens on all of its addresses. The error contains
// its output.
func (f *nginxFront) startNginx(s nginxSetup) (string, error) {
	t := f.t
	t.Helper()
	path, err := exec.LookPath("nginx")
	assert.NoError(t, err, nginxInstall)
	_, err = os.Stat("/usr/share/lua/5.1/nginx/redis.lua")
	assert.NoError(t, err, nginxInstall)
	f.dir = t.TempDir()
	addr := "127.0.0.1:" + servers.FreePort(t)
	file := filepath.Join(f.dir, "nginx.conf")
	assert.NoError(t, os.WriteFile(file, []byte(f.exampleConf(s, addr)), 0o600), "configuration")
	var said bytes.Buffer
	f.url, f.cmd = "http://"+addr, exec.Command(path, "-p", f.dir, "-c", file, "-e", filepath.Join(f.dir, "error.log"), "-g", "daemon off;")
	f.cmd.Env = append(os.Environ(), "RETRYSAFE_SECRET="+cmp.Or(s.secret, nginxSecret))
	f.cmd.Stdout, f.cmd.Stderr = &said, &said
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	assert.NoError(t, f.cmd.Start(), "start nginx")
	ended := make(chan struct{})
	go func() {
		_ = f.cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = f.cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("error log of nginx:\n%s", f.readLog())
		}
	})
	for end := time.Now().Add(waits.Patience); ; time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			return said.String() + f.readLog(), io.ErrUnexpectedEOF
		default:
		}
		// It opens one address after the other, and writes the file when all are open.
		if _, err := os.Stat(filepath.Join(f.dir, "pid")); err == nil {
			return "", nil
		}
		assert.True(t, time.Now().Before(end), "nginx listens (%s)", f.readLog())
	}
}

func (f *nginxFront) readLog() string {
	b, _ := os.ReadFile(filepath.Join(f.dir, "error.log"))
	return string(b)
}

// nginxReply is an answer, completely read.
type nginxReply struct {
	status int
	header http.Header
	body   string
}

// sendRequest sends a request; header has names and values in turn.
func (f *nginxFront) sendRequest(method, path, body string, header ...string) nginxReply {
	f.t.Helper()
	r, err := f.trySend(f.t.Context(), method, path, body, header...)
	assert.NoError(f.t, err, "%s %s", method, path)
	return r
}

func (f *nginxFront) trySend(ctx context.Context, method, path, body string, header ...string) (r nginxReply, err error) {
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
	if err != nil {
		return r, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return nginxReply{resp.StatusCode, resp.Header, string(b)}, err
}

// postOrder posts an order with a key and a credential.
func (f *nginxFront) postOrder(key, body string, header ...string) nginxReply {
	f.t.Helper()
	return f.sendRequest("POST", "/orders?a=1", body, append([]string{"Idempotency-Key", key, "Authorization", "Bearer opaque"}, header...)...)
}

// checkProblem checks that an answer is a problem document, with or without Retry-After.
func (f *nginxFront) checkProblem(r nginxReply, status int, code string, retry bool) {
	f.t.Helper()
	assert.Equal(f.t, r.status, status, "status (%s)", r.body)
	assert.Contains(f.t, r.body, `"code":"`+code+`"`, "code")
	assert.Equal(f.t, r.header.Get("Content-Type"), "application/problem+json", "content type")
	assert.Contains(f.t, r.header.Get("Link"), "problems/"+code+`.md>; rel="describedby"`, "Link")
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	assert.Equal(f.t, err == nil && seconds >= 1 && seconds <= 5, retry, "Retry-After of 1 to 5 seconds: %q", r.header.Get("Retry-After"))
}

// checkStarts checks how often the origin was started.
func (f *nginxFront) checkStarts(want int64, what string) {
	f.t.Helper()
	assert.Equal(f.t, f.starts.Load(), want, "starts of the service: %s", what)
}

// records returns the store of nginx's records, and an engine on it, whose answers have the name of
// a trace.
func (f *nginxFront) records() (*redisstore.Store, *retrysafe.Engine) {
	f.t.Helper()
	store := teststores.Redis(f.t, servers.RueidisTo(f.t, f.redis.Addr), nil)
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: []byte(nginxSecret), Sweep: -1, Trace: &retrysafe.Trace{
		Origin: func(context.Context) string { return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
	}})
	f.t.Cleanup(func() { _ = engine.Shutdown(context.Background()) })
	return store, engine.Layer("nginx")
}
