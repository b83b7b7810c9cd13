package kratosidem_test

import (
	"context"
	stderrors "errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-kratos/kratos/v2/errors"
	"github.com/go-kratos/kratos/v2/middleware"
	"github.com/go-kratos/kratos/v2/transport"
	kgrpc "github.com/go-kratos/kratos/v2/transport/grpc"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/kratosidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/notrun"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/rpcidem/rpcidemtest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func engine(t *testing.T) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("16 bytes or more"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// both is one service over both transports.
type both struct {
	conn *grpc.ClientConn
	web  *khttp.Client
	url  string
}

// start serves h over gRPC and HTTP, with one guard.
func start(t *testing.T, o *rpcidem.Options, h middleware.Handler) *both {
	t.Helper()
	guard := kratosidem.Server(engine(t), o)
	lg, lh := listen(t), listen(t)
	g := kgrpc.NewServer(kgrpc.Listener(lg), kgrpc.Timeout(0), kgrpc.Middleware(guard))
	g.RegisterService(service(h), new(any))
	serve(t, g.Start, g.Stop)
	s := khttp.NewServer(khttp.Listener(lh), khttp.Timeout(0), khttp.Middleware(guard))
	route(s, h)
	s.Route("/").GET("/do", func(c khttp.Context) error {
		khttp.SetOperation(c, rpcidemtest.Path)
		out, err := c.Middleware(h)(c, wrapperspb.String(c.Query().Get("q")))
		if err != nil {
			return err
		}
		return c.Result(http.StatusOK, out)
	})
	serve(t, s.Start, s.Stop)
	conn, err := kgrpc.DialInsecure(t.Context(), kgrpc.WithEndpoint(lg.Addr().String()), kgrpc.WithTimeout(0),
		kgrpc.WithHealthCheck(false), kgrpc.WithMiddleware(kratosidem.Client(nil)))
	assert.NoError(t, err, "connect")
	t.Cleanup(func() { _ = conn.Close() })
	over := &http.Transport{}
	t.Cleanup(over.CloseIdleConnections)
	web, err := khttp.NewClient(t.Context(), khttp.WithEndpoint(lh.Addr().String()), khttp.WithTransport(over), khttp.WithTimeout(time.Minute), khttp.WithMiddleware(kratosidem.Client(nil)))
	assert.NoError(t, err, "client")
	return &both{conn, web, "http://" + lh.Addr().String()}
}

func (b *both) grpc(ctx context.Context, request string) (string, error) {
	reply := new(text)
	err := b.conn.Invoke(ctx, rpcidemtest.Path, wrapperspb.String(request), reply)
	return reply.GetValue(), err
}

func (b *both) http(ctx context.Context, request string) (string, error) {
	reply := new(text)
	err := b.web.Invoke(ctx, http.MethodPost, "/do", wrapperspb.String(request), reply)
	return reply.GetValue(), err
}

// TestTransportsMeet: the answer of a call over one transport is replayed over the other: messages,
// and errors with status, reason and metadata, also errors that gRPC has no code for.
func TestTransportsMeet(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	b := start(t, &rpcidem.Options{Tenant: rpcidem.Global, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}}, func(_ context.Context, req any) (any, error) {
		runs.Add(1)
		if req.(*text).GetValue() == "none" { //nolint:errcheck // as sent
			return nil, errors.New(422, "SOLD_OUT", "no such tea").WithMetadata(map[string]string{"tea": "green"})
		}
		return wrapperspb.String("done"), nil
	})
	for i, call := range []func(context.Context, string) (string, error){b.http, b.grpc, b.http, b.grpc} {
		reply, err := call(httpidem.ContextWithKey(t.Context(), "k"), "x")
		assert.NoError(t, err, "call %d", i)
		assert.Equal(t, reply, "done", "answer %d", i)
		_, err = call(httpidem.ContextWithKey(t.Context(), "l"), "none")
		own := errors.FromError(err)
		assert.Equal(t, own.Reason, "SOLD_OUT", "reason %d of %v", i, err)
		assert.Equal(t, own.Message, "no such tea", "message %d", i)
		assert.Equal(t, own.Metadata, map[string]string{"tea": "green"}, "metadata %d", i)
		if i%2 == 0 {
			assert.Equal(t, own.Code, int32(422), "status %d", i)
		} else {
			assert.Equal(t, len(status.Convert(err).Details()), 1, "details %d", i)
		}
	}
	assert.Equal(t, runs.Load(), int64(2), "runs, though gRPC calls 422 UNKNOWN, which Reexecute would run again")
}

// TestWhatStatusesMean: the status of an error of Kratos means for its key what it means over HTTP,
// also if gRPC has no code for it. A conflict may be another service's that the method passes on
// after it has charged: it is stored, as 423 is.
func TestWhatStatusesMean(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	runs := map[string]int{}
	b := start(t, &rpcidem.Options{Tenant: rpcidem.Global}, func(_ context.Context, req any) (any, error) {
		request := req.(*text).GetValue() //nolint:errcheck // as sent
		mu.Lock()
		defer mu.Unlock()
		runs[request]++
		code, err := strconv.Atoi(request)
		if err != nil {
			return nil, err
		}
		return nil, errors.New(code, "WHY", "no tea")
	})
	wants := map[int]int{400: 1, 404: 1, 410: 1, 412: 1, 422: 1, 503: 1, 504: 1}
	for _, row := range notrun.Always {
		if row.Status != 0 {
			wants[row.Status] = 2
		}
	}
	for _, row := range notrun.UnderReexecute {
		wants[row.Status] = 1
	}
	for code, want := range wants {
		request := strconv.Itoa(code)
		for range 2 {
			_, err := b.http(httpidem.ContextWithKey(t.Context(), "k"+request), request)
			assert.Equal(t, int(errors.FromError(err).Code), code, "status of %v", err)
		}
		mu.Lock()
		assert.Equal(t, runs[request], want, "runs of two calls with one key that are answered %d", code)
		mu.Unlock()
	}
}

// TestReads: a request by GET passes, with and without a key.
func TestReads(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	b := start(t, &rpcidem.Options{Tenant: rpcidem.Global, Key: rpcidem.Required}, func(ctx context.Context, _ any) (any, error) {
		runs.Add(1)
		tr, ok := transport.FromServerContext(ctx)
		assert.True(t, ok && tr.RequestHeader().Get("idempotency-key") == "", "a GET has a key")
		return wrapperspb.String("read"), nil
	})
	for i := range int64(2) {
		reply := new(text)
		assert.NoError(t, b.web.Invoke(httpidem.ContextWithKey(t.Context(), "k"), http.MethodGet, "/do?q=x", nil, reply), "call")
		assert.Equal(t, runs.Load(), i+1, "runs")
	}
}

// TestPlainCallers: a caller without this package's client gets the same advice as an error of
// Kratos.
func TestPlainCallers(t *testing.T) {
	t.Parallel()
	b := start(t, &rpcidem.Options{Tenant: rpcidem.Global, Key: rpcidem.Required}, func(context.Context, any) (any, error) {
		return wrapperspb.String("done"), nil
	})
	resp, err := testclient.HTTP.Post(b.url+"/do", "application/json", strings.NewReader(`"x"`))
	assert.NoError(t, err, "post")
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "body")
	assert.NoError(t, resp.Body.Close(), "close")
	assert.Equal(t, resp.StatusCode, 400, "status")
	assert.True(t, strings.Contains(string(body), `"KEY_MISSING"`) && strings.Contains(string(body), `"retrysafe"`), "body: %s", body)
	_, err = b.grpc(t.Context(), "x")
	reason, ok := kratosidem.Reason(err)
	assert.True(t, ok && reason == "KEY_MISSING", "over gRPC: %v", err)
	_, err = b.grpc(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k"), "x")
	assert.NoError(t, err, "a key in the metadata of gRPC")
	_, ok = kratosidem.Reason(nil)
	assert.Equal(t, ok, false, "a reason of no error")
	_, ok = kratosidem.Reason(errors.New(400, "KEY_MISSING", "of the service's own"))
	assert.Equal(t, ok, false, "a reason of another domain")
}

var errReset = stderrors.New("connection reset by peer")

// cutting loses the answers of the first requests in transit, alternately before the head and in
// the body.
type cutting struct {
	http.RoundTripper
	left atomic.Int64
}

func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	switch left := c.left.Add(-1); {
	case left < 0:
		return resp, nil
	case left%2 == 0:
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, errReset
	}
	resp.Body = &half{ReadCloser: resp.Body}
	return resp, nil
}

// half is a body that ends early.
type half struct{ io.ReadCloser }

func (h *half) Read(p []byte) (int, error) {
	_, _ = h.ReadCloser.Read(p)
	return 0, io.ErrUnexpectedEOF
}

// TestCutConnections: over HTTP, a call whose connection breaks is retried, with its whole body and
// its key.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	b := start(t, &rpcidem.Options{Tenant: rpcidem.Global}, func(_ context.Context, req any) (any, error) {
		runs.Add(1)
		return req, nil
	})
	over := &http.Transport{}
	t.Cleanup(over.CloseIdleConnections)
	lossy := &cutting{RoundTripper: over}
	lossy.left.Store(2)
	web, err := khttp.NewClient(t.Context(), khttp.WithEndpoint(strings.TrimPrefix(b.url, "http://")), khttp.WithTransport(lossy),
		khttp.WithMiddleware(kratosidem.Client(&rpcidem.ClientOptions{Retry: rpcidem.Retry{MinWait: 1}})))
	assert.NoError(t, err, "client")
	reply := new(text)
	// net/http cannot restore a body that is gone after its head was sent
	large := strings.Repeat("tea", 100_000)
	assert.NoError(t, web.Invoke(httpidem.ContextWithKey(t.Context(), "k"), http.MethodPost, "/do", wrapperspb.String(large), reply), "call")
	assert.True(t, reply.GetValue() == large, "the answer")
	assert.Equal(t, runs.Load(), int64(1), "runs")
}
