package http_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// framework is a service in another language, as its framework makes it. Nothing is configured for
// the gateway.
type framework struct {
	program, install string
	args             []string // before the address
	file             string   // that has to be installed
	page             string   // the path of a page
	// what it answers to POST /votes, for which only /votes/ has a handler; 201: that handler runs
	slash  int
	ranges bool // it answers ranges by itself
}

var frameworks = map[string]framework{
	"FastAPI": {"python3", "python3-fastapi python3-uvicorn", []string{"fastapi_service.py"}, "/usr/lib/python3/dist-packages/fastapi", "/page", 307, false},
	"Django":  {"python3", "python3-django", []string{"django_service.py"}, "/usr/lib/python3/dist-packages/django", "/page", 301, false},
	"Express": {"node", "node-express node-compression", []string{"express_service.cjs"}, "/usr/share/nodejs/compression", "/page", 201, false},
	"Node":    {"node", "nodejs", []string{"node_service.mjs"}, "", "/page", 308, false},
	"Tomcat":  {"java", "libtomcat10-embed-java", []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "/usr/share/java/tomcat10-embed-core.jar", "Service.java"}, "/usr/share/java/tomcat10-embed-core.jar", "/page.txt", 307, true},
}

// start starts the service until the test ends, and returns its address.
func (f *framework) start(t *testing.T) string {
	t.Helper()
	if f.file != "" {
		_, err := os.Stat(f.file)
		assert.NoError(t, err, "not installed: apt-get install -y --no-install-recommends %s", f.install)
	}
	dir, err := filepath.Abs("testdata/services")
	assert.NoError(t, err, "folder")
	addr := "127.0.0.1:" + servers.FreePort(t)
	c := exec.CommandContext(t.Context(), servertest.Program(t, f.program, f.install, "/usr/bin"), append(f.args, addr)...)
	c.Dir = dir
	// NODE_PATH is where Debian has its packages, for a Node that is not Debian's.
	c.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NODE_PATH=/usr/share/nodejs")
	p := new(servertest.Process)
	p.Start(t, c)
	t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the service said:\n%s", p.Output())
		}
	})
	p.Await(t, f.program, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return addr
}

// visitor is a client that follows redirects and keeps cookies, and that knows the gateway as
// shop.example.
type visitor struct {
	t *testing.T
	*http.Client
}

const site = "http://shop.example"

func newVisitor(t *testing.T, gateway string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	assert.NoError(t, err, "cookies")
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == "shop.example:80" {
			addr = gateway
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t, &http.Client{Transport: transport, Jar: jar}}
}

// sendRequest sends a request; header has names and values in turn.
func (b *visitor) sendRequest(method, path, body string, header ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, site+path, strings.NewReader(body))
	assert.NoError(b.t, err, "request")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := b.Do(r)
	assert.NoError(b.t, err, "%s %s", method, path)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	assert.NoError(b.t, err, "the answer to %s %s", method, path)
	assert.Equal(b.t, resp.Request.URL.Host, "shop.example", "where %s %s ends", method, path)
	return resp, string(text)
}

// sendTwice sends a request twice with one key, and returns the first answer. The second is its
// replay.
func (b *visitor) sendTwice(path, body, key string, header ...string) (*http.Response, string) {
	b.t.Helper()
	header = append([]string{"Idempotency-Key", key, "Authorization", "Bearer opaque"}, header...)
	first, text := b.sendRequest("POST", path, body, header...)
	second, again := b.sendRequest("POST", path, body, header...)
	assert.Equal(b.t, second.Header.Get("Idempotency-Replayed"), "true", "POST %s again", path)
	assert.Equal(b.t, fmt.Sprint(second.StatusCode, second.Header.Get("Location"), again), fmt.Sprint(first.StatusCode, first.Header.Get("Location"), text), "the replay of POST %s", path)
	return first, text
}

// castVote casts a vote as a person does who presses three times, with one key, at the path without
// the slash and then at the right one. It needs a route for both where one handler has two paths.
func (b *visitor) castVote(f *framework) {
	b.t.Helper()
	key := []string{"Idempotency-Key", "vote-of-ann", "Authorization", "Bearer opaque", "Content-Type", "application/json"}
	for range 3 {
		resp, text := b.sendRequest("POST", "/votes", `{"poll":1}`, key...)
		if f.slash == http.StatusMovedPermanently { // a browser goes on with GET
			assert.Equal(b.t, resp.StatusCode, http.StatusMethodNotAllowed, "what a redirect that loses the method leads to")
			continue
		}
		assert.Equal(b.t, fmt.Sprint(resp.StatusCode, strings.ReplaceAll(text, " ", "")), `201{"votes":1}`, "a press")
	}
	resp, text := b.sendRequest("POST", "/votes/", `{"poll":1}`, key...)
	if f.slash == http.StatusCreated { // the key was used with /votes
		assert.Equal(b.t, resp.StatusCode, http.StatusUnprocessableEntity, "a press at the other path")
		resp, text = b.sendRequest("POST", "/votes", `{"poll":1}`, key...)
	}
	assert.Equal(b.t, fmt.Sprint(resp.StatusCode, strings.ReplaceAll(text, " ", "")), `201{"votes":1}`, "a press at the right path")
	at, err := resp.Location()
	assert.NoError(b.t, err, "Location")
	assert.Equal(b.t, at.String(), site+"/votes/1", "where the vote is")
	_, n := b.sendRequest("GET", "/count", "")
	assert.Equal(b.t, n, "1", "votes of four presses")
	home, err := url.Parse(site)
	assert.NoError(b.t, err, "home")
	names := fmt.Sprint(b.Jar.Cookies(home))
	assert.Equal(b.t, names, "[session=ann]", "cookies that the browser has accepted")
}

// TestFrameworks tests services of real frameworks, with what they do by themselves: redirects to
// the path with a slash, absolute URLs, cookies for the Host, streams, compression, entity tags,
// ranges, HEAD, Expect, and closing idle connections.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	for name, f := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := f.start(t)
			var routes []gateway.Route
			if f.slash == http.StatusCreated {
				routes = []gateway.Route{{Match: "POST /votes", Guard: httpidem.Options{Request: httpidem.RequestOptions{
					Operation: func(*http.Request) string { return "vote" },
				}}}}
			}
			b := newVisitor(t, frontFor(t, upstream, false, routes...))
			b.castVote(&f)

			_, text := b.sendTwice("/stream", "abc", "a-stream")
			assert.Equal(t, text, "part 0 of 3\npart 1 of 3\npart 2 of 3\n", "a stream")
			resp, text := b.sendTwice("/empty", "x", "nothing")
			assert.Equal(t, fmt.Sprint(resp.StatusCode, text), "204", "an answer without a body")
			_, text = b.sendTwice("/upload", "x", "expecting", "Expect", "100-continue")
			assert.Contains(t, text, `"bytes"`, "a request that expects 100")
			b.uploadFile()
			b.askForPage(&f)

			kept := newVisitor(t, frontFor(t, upstream, true))
			resp, _ = kept.sendRequest("POST", "/votes/", "{}", "Idempotency-Key", "another-vote", "Authorization", "Bearer opaque")
			assert.Equal(t, resp.Header.Get("Location"), site+"/votes/2", "Location where the client's Host is kept")
		})
	}
}

// uploadFile sends a file whose boundary is another one in the retry.
func (b *visitor) uploadFile() {
	b.t.Helper()
	var texts []string
	for range 2 {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		file, err := form.CreateFormFile("photo", "photo.jpg")
		assert.NoError(b.t, err, "file")
		_, _ = file.Write(bytes.Repeat([]byte("photo"), 50_000))
		assert.NoError(b.t, form.Close(), "form")
		resp, text := b.sendRequest("POST", "/upload", body.String(), "Idempotency-Key", "a-file", "Authorization", "Bearer opaque", "Content-Type", form.FormDataContentType())
		assert.Equal(b.t, resp.StatusCode, 200, "an upload")
		assert.Contains(b.t, text, fmt.Sprint(body.Len()), "bytes that the service has got")
		texts = append(texts, text+resp.Header.Get("Idempotency-Replayed"))
	}
	assert.Equal(b.t, texts[1], texts[0]+"true", "the upload again")
}

// askForPage asks for a page in the ways that browsers do.
func (b *visitor) askForPage(f *framework) {
	b.t.Helper()
	page := strings.Repeat("page ", 100)
	resp, text := b.sendRequest("GET", f.page, "")
	assert.Equal(b.t, fmt.Sprint(resp.StatusCode, text == page), "200 true", "a page")
	tag := resp.Header.Get("ETag")
	assert.True(b.t, tag != "", "the page has an ETag")
	resp, text = b.sendRequest("GET", f.page, "", "If-None-Match", tag)
	assert.Equal(b.t, fmt.Sprint(resp.StatusCode, text), "304", "the page, if it has changed")
	resp, text = b.sendRequest("HEAD", f.page, "")
	assert.Equal(b.t, fmt.Sprint(resp.StatusCode, text), "200", "HEAD")
	resp, text = b.sendRequest("GET", f.page, "", "Accept-Encoding", "gzip")
	assert.Equal(b.t, resp.Header.Get("Content-Encoding"), "gzip", "the coding of a compressed page")
	whole, err := gzip.NewReader(strings.NewReader(text))
	assert.NoError(b.t, err, "gzip")
	plain, err := io.ReadAll(whole)
	assert.True(b.t, err == nil && string(plain) == page, "the compressed page: %v", err)
	if f.ranges {
		resp, text = b.sendRequest("GET", f.page, "", "Range", "bytes=0-8")
		assert.Equal(b.t, fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Range"), " ", text), "206 bytes 0-8/500 page page", "a range")
	}
}

// frontFor starts a gateway before a service, and returns its address.
func frontFor(t *testing.T, upstream string, keepHost bool, routes ...gateway.Route) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Logger: log})
	g, err := gateway.New(e, &gateway.Options{Upstreams: []string{"http://" + upstream}, KeepHost: keepHost, Routes: routes, Logger: log})
	assert.NoError(t, err, "gateway")
	front := httptest.NewServer(g)
	t.Cleanup(func() { front.Close(); _ = g.Close() })
	return front.Listener.Addr().String()
}

// TestNginxFrameworks tests the presses of TestFrameworks before nginx, where the service gets the
// client's Host, as in the example, and where it gets the name that nginx has for it.
func TestNginxFrameworks(t *testing.T) {
	t.Parallel()
	const host = "      proxy_set_header Host $http_host;\n"
	const rest = "      proxy_set_header X-Forwarded-For $remote_addr;\n      proxy_set_header X-Forwarded-Proto $scheme;\n"
	ends := []string{"\n      # Turn off", "    }\n\n    location @retrysafe_too_large"}
	for name, replace := range map[string]map[string]string{
		"the client's Host": nil,
		"nginx's name":      {host + rest + ends[0]: rest + ends[0], host + rest + ends[1]: rest + ends[1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := frameworks["FastAPI"]
			n := startNginx(t, nginxSetup{service: f.start(t), replace: replace})
			newVisitor(t, strings.TrimPrefix(n.url, "http://")).castVote(&f)
		})
	}
}

// TestNginxAnswersNameNoService tests the fields that clients follow: no answer of nginx, first,
// replayed or unguarded, has a URL of the service.
func TestNginxAnswersNameNoService(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: func(w http.ResponseWriter, r *http.Request) {
		_, port, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()) //nolint:forcetypeassert,errcheck // a server sets it
		at, h := strings.ReplaceAll(r.Header.Get("X-At"), "PORT", port), w.Header()
		h.Set("Location", at+"/orders/1")
		h.Set("Content-Location", at+"//evil.example/")
		h.Set("Refresh", "0"+r.Header.Get("X-Mark")+" url='"+at+"/orders/1'")
		h.Set("Www-Authenticate", `Bearer realm="<http://service/>", resource_metadata="`+at+`/m"`)
		h["Link"] = []string{"<" + at + "/a>; rel=next, </b>; title=\"<x>\"; anchor=\"" + at + "/c\"", "<http://far.example/d>; anchor=" + at + "/e"}
		h["Set-Cookie"] = []string{"a=1; Domain=127.0.0.1; Path=/", "b=2; Domain=.shop.example"}
		h.Set("Alt-Svc", `h2=":1"; ma=60, h2="`+strings.TrimLeft(at[strings.Index(at, ":")+1:], "/")+`"`)
		w.WriteHeader(http.StatusCreated)
	}})
	const want = "201 [/orders/1] [/.//evil.example/] [0%s url='/orders/1'] [</a>; rel=next, </b>; title=\"<x>\"; anchor=\"/c\" <http://far.example/d>; anchor=/e] [Bearer realm=\"<http://service/>\", resource_metadata=\"http://shop.example/m\"] []"
	for n, at := range []string{
		"http://127.0.0.1:PORT", "http://127.1:PORT", "https://2130706433:PORT", "http://0x7f.1:PORT", "http://0177.0.0.%31:PORT", "http:/127.0.0.1:PORT",
		"http://service", "https://SERVICE", "http://service:80", "http://%73ervice.", "http:service",
	} {
		mark := []string{";", ""}[n%2]
		for i, key := range []string{fmt.Sprint("key-", n), fmt.Sprint("key-", n), ""} {
			header := []string{"Authorization", "Bearer x", "X-At", at, "X-Mark", mark}
			if key != "" {
				header = append(header, "Idempotency-Key", key)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/orders", strings.NewReader("x"))
			assert.NoError(t, err, "request")
			req.Host = "shop.example"
			for j := 0; j < len(header); j += 2 {
				req.Header.Set(header[j], header[j+1])
			}
			resp, err := f.client.Do(req)
			assert.NoError(t, err, "%q, request %d", at, i)
			h := resp.Header
			assert.NoError(t, resp.Body.Close(), "close")
			assert.Equal(t, fmt.Sprint(resp.StatusCode, h["Location"], h["Content-Location"], h["Refresh"], h["Link"], h["Www-Authenticate"], h["Alt-Svc"]), fmt.Sprintf(want, mark), "%q, answer %d", at, i)
			if i != 1 { // cookies are not kept
				assert.Equal(t, h["Set-Cookie"], []string{"a=1; Path=/", "b=2; Domain=.shop.example"}, "%q, cookies of answer %d", at, i)
			}
		}
	}
}
