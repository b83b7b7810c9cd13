package check_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// newProxy returns a Proxy to a service.
func newProxy(t *testing.T, upstream string) *check.Proxy {
	t.Helper()
	p, err := check.ListenProxy("", upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// newService serves handler until the test ends.
func newService(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// rawService answers the first request of each connection with text. It closes the connection then,
// or if it stays after the second request, which it does not answer.
func rawService(t *testing.T, text string, stays bool) (addr string, requests *atomic.Int64) {
	t.Helper()
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	requests = new(atomic.Int64)
	read := func(in *bufio.Reader) bool {
		r, err := http.ReadRequest(in)
		if err != nil {
			return false
		}
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		return true
	}
	go func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				if read(in) {
					_, _ = io.WriteString(conn, text)
					_ = stays && read(in)
				}
			}()
		}
	}()
	return socket.Addr().String(), requests
}

func TestProxyCountsWhatTookEffect(t *testing.T) {
	t.Parallel()
	p := newProxy(t, newService(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusBadRequest)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "/made":
			w.WriteHeader(http.StatusCreated)
		}
	}))
	for path, status := range map[string]int{"/": 200, "/made": 201, "/bad": 400, "/broken": 500} {
		if got := sendRequest(t, http.MethodPost, p.URL()+path, "a"); got != status {
			t.Errorf("POST %s: %d", path, got)
		}
		sendRequest(t, http.MethodGet, p.URL()+path, "")
		sendRequest(t, http.MethodHead, p.URL()+path, "")
	}
	assertCount(t, p, 2)
	sendRequest(t, http.MethodDelete, p.URL(), "")
	assertCount(t, p, 3)
}

func TestProxyPassesRequestsAsTheyAre(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	p := newProxy(t, newService(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r
		w.Header().Set("X-Answer", "1")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	})+"/base/")
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL()+"/a%2Fb?q=1;2&%zz", strings.NewReader("body"))
	r.Host = "api.example"
	r.Header = http.Header{"X-Forwarded-For": {"10.0.0.1"}, "Idempotency-Key": {"k"}, "Accept-Encoding": {"br"}}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "body" || response.StatusCode != http.StatusTeapot || response.Header.Get("X-Answer") != "1" {
		t.Errorf("%s %v %q, %v", response.Status, response.Header, body, err)
	}
	in := <-got
	if in.Host != "api.example" || in.RequestURI != "/base/a%2Fb?q=1;2&%zz" || in.ContentLength != 4 {
		t.Errorf("host %s, URI %s, length %d", in.Host, in.RequestURI, in.ContentLength)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "10.0.0.1", "Idempotency-Key": "k", "Accept-Encoding": "br", "User-Agent": "Go-http-client/1.1",
	} {
		if in.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, in.Header.Get(name), want)
		}
	}
}

func TestProxyStreams(t *testing.T) {
	t.Parallel()
	p := newProxy(t, newService(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		piece := make([]byte, 1)
		for {
			n, err := r.Body.Read(piece)
			_, _ = w.Write(piece[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	}))
	// over a plain connection, since a client may wait with its body for the answer
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	piece := make([]byte, 1)
	if _, err := io.ReadFull(response.Body, piece); err != nil || piece[0] != 'a' {
		t.Fatalf("the first byte came back as %q, %v", piece, err)
	}
	_, _ = io.WriteString(conn, "b")
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "b" {
		t.Errorf("the rest came back as %q, %v", rest, err)
	}
	assertCount(t, p, 1)
}

// sendOnce sends a request with a key, which Go's client would repeat on a connection that it has
// used. It returns an error unless the answer is whole.
func sendOnce(t *testing.T, to string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Idempotency-Key", "k")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return err
}

func TestProxyCountsWhatWasNotAnswered(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"", // the connection is closed
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"nonsense\r\n\r\n",
	} {
		addr, requests := rawService(t, answer, false)
		p := newProxy(t, "http://"+addr)
		for i := range int64(3) {
			if sendOnce(t, p.URL()) == nil {
				t.Errorf("%q: the answer is whole", answer)
			}
			if n := requests.Load(); n != i+1 {
				t.Errorf("%q: %d requests after %d", answer, n, i+1)
			}
			assertCount(t, p, i+1)
		}
	}
}

func TestProxyNeverRepeats(t *testing.T) {
	t.Parallel()
	addr, requests := rawService(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true)
	p := newProxy(t, "http://"+addr)
	for i := range int64(5) {
		if err := sendOnce(t, p.URL()); err != nil {
			t.Errorf("request %d: %v", i+1, err)
		}
		if n := requests.Load(); n != i+1 {
			t.Errorf("the service got %d requests after %d", n, i+1)
		}
	}
	assertCount(t, p, 5)
}

func TestProxyWithoutService(t *testing.T) {
	t.Parallel()
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	p := newProxy(t, "http://127.0.0.1:"+port)
	if status := sendRequest(t, http.MethodPost, p.URL(), "a"); status != http.StatusServiceUnavailable {
		t.Errorf("a POST: %d", status)
	}
	assertCount(t, p, 0)
	for _, wrong := range []string{"", "localhost:80", "ftp://host", "http://", "http://u:p@host", "http://host/?a=1", "http://ho st"} {
		if p, err := check.ListenProxy("", wrong); err == nil {
			t.Errorf("%q was taken", wrong)
			_ = p.Close()
		}
	}
}

func TestProxyMakesTrouble(t *testing.T) {
	t.Parallel()
	p := newProxy(t, newService(t, func(http.ResponseWriter, *http.Request) {}))
	for status, trouble := range map[int]*check.Trouble{400: p.ClientError(), 429: p.TooMany(), 500: p.ServerError()} {
		if err := trouble.On(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{"", strings.Repeat("a", 1<<20)} {
			if got := sendRequest(t, http.MethodPost, p.URL(), body); got != status {
				t.Errorf("%d in trouble %d", got, status)
			}
		}
		if err := trouble.Off(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	assertCount(t, p, 0)
	if got := sendRequest(t, http.MethodPost, p.URL(), ""); got != http.StatusOK {
		t.Errorf("%d after the trouble", got)
	}
	assertCount(t, p, 1)
	defer func() {
		if recover() == nil {
			t.Error("Answer(200) did not panic")
		}
	}()
	p.Answer(http.StatusOK)
}

func TestProxyDelaysAnswers(t *testing.T) {
	t.Parallel()
	p := newProxy(t, newService(t, func(http.ResponseWriter, *http.Request) {}))
	p.Delay(50 * time.Millisecond)
	began := time.Now()
	if sendRequest(t, http.MethodPost, p.URL(), ""); time.Since(began) < 50*time.Millisecond {
		t.Errorf("the answer came after %v", time.Since(began))
	}
	p.Delay(time.Hour)
	ended := make(chan error, 2)
	for _, body := range []string{"a", "b"} {
		go func() {
			response, err := http.Post(p.URL(), "text/plain", strings.NewReader(body))
			if err == nil {
				response.Body.Close()
			}
			ended <- err
		}()
	}
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(time.Millisecond) {
		if n, _ := p.Count(t.Context()); n == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("what the service answered was not counted while the answer is held")
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("a held answer was sent")
		}
	}
}
