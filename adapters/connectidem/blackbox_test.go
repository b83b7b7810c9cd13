package connectidem_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/adapters/connectidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/rpcidem/rpcidemtest"
)

type text = wrapperspb.StringValue

// connectError returns an error of the suite as an error of Connect.
func connectError(f *rpcidemtest.Error) error {
	e := connect.NewError(connect.Code(f.Code), errors.New(f.Message))
	add := func(m proto.Message) {
		if d, err := connect.NewErrorDetail(m); err == nil {
			e.AddDetail(d)
		}
	}
	add(&errdetails.DebugInfo{Detail: "a detail"})
	if f.Reason != "" {
		add(&errdetails.ErrorInfo{Reason: f.Reason, Domain: rpcidem.Domain})
	}
	if f.RetryAfter > 0 {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(f.RetryAfter)})
	}
	if f.Mark != nil {
		return f.Mark(e)
	}
	return e
}

// between calls the suite's Between before the guard.
func between(b func(func()) *rpcidemtest.Error) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
			if b == nil {
				return next(ctx, req)
			}
			if f := b(func() { resp, err = next(ctx, req) }); f != nil {
				return nil, connectError(f)
			}
			return resp, err
		}
	}
}

func handler(m rpcidemtest.Method, o ...connect.HandlerOption) http.Handler {
	return connect.NewUnaryHandler(rpcidemtest.Path, func(ctx context.Context, req *connect.Request[text]) (*connect.Response[text], error) {
		reply, failed := m(ctx, req.Msg.GetValue())
		if failed != nil {
			return nil, connectError(failed)
		}
		return connect.NewResponse(wrapperspb.String(reply)), nil
	}, o...)
}

// serve starts a server for HTTP/1.1 and HTTP/2, and returns a client for HTTP/2, which gRPC needs.
func serve(t *testing.T, h http.Handler) (*http.Client, string) {
	t.Helper()
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = both
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	second := new(http.Protocols)
	second.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: second}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
	})
	return &http.Client{Transport: transport}, s.URL
}

func opener(protocol ...connect.ClientOption) rpcidemtest.Open {
	return func(t *testing.T, w *rpcidemtest.Setup) func(context.Context, rpcidemtest.Call) rpcidemtest.Answer {
		t.Helper()
		recovered := connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
			return connect.NewError(connect.CodeInternal, errors.New("recovered"))
		})
		doer, url := serve(t, handler(w.Method, recovered, connect.WithInterceptors(between(w.Between), connectidem.Server(w.Engine, w.Options))))
		client := connect.NewClient[text, text](doer, url+rpcidemtest.Path, append(protocol, connect.WithInterceptors(connectidem.Client(w.Client)))...)
		return func(ctx context.Context, c rpcidemtest.Call) rpcidemtest.Answer {
			req := connect.NewRequest(wrapperspb.String(c.Request))
			if c.Tenant != "" {
				req.Header().Set("tenant", c.Tenant)
			}
			for _, k := range c.Keys {
				req.Header().Add(rpcidem.DefaultMetadata, k)
			}
			resp, err := client.CallUnary(ctx, req)
			assert.Equal(t, len(req.Header().Values(rpcidem.DefaultMetadata)), len(c.Keys), "keys in the caller's own request")
			if err == nil {
				return rpcidemtest.Answer{Reply: resp.Msg.GetValue(), Replayed: told(resp.Header(), "replayed"), Unconfirmed: told(resp.Header(), "stored")}
			}
			return answer(t, err)
		}
	}
}

func told(h http.Header, what string) bool { return len(h.Values("idempotency-"+what)) == 1 }

// answer parses an error.
func answer(t *testing.T, err error) rpcidemtest.Answer {
	t.Helper()
	e, ok := errors.AsType[*connect.Error](err)
	assert.True(t, ok, "an error of Connect: %v", err)
	a := rpcidemtest.Answer{
		Code: rpcidem.Code(e.Code()), Message: e.Message(),
		Replayed: told(e.Meta(), "replayed"), Unconfirmed: told(e.Meta(), "stored"),
	}
	for _, detail := range e.Details() {
		m, err := detail.Value()
		assert.NoError(t, err, "a detail")
		switch d := m.(type) {
		case *errdetails.ErrorInfo:
			a.Reason = d.GetReason()
		case *errdetails.RetryInfo:
			a.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.DebugInfo:
			assert.Equal(t, d.GetDetail(), "a detail", "the detail of an error, replayed or not")
		}
	}
	return a
}

func TestBlackBox(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]connect.ClientOption{
		"Connect": connect.WithAcceptCompression("gzip", nil, nil), "JSON": connect.WithProtoJSON(), "GRPC": connect.WithGRPC(), "GRPCWeb": connect.WithGRPCWeb(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rpcidemtest.Run(t, opener(o))
		})
	}
}

func TestBlackBoxClient(t *testing.T) {
	t.Parallel()
	rpcidemtest.RunClient(t, opener())
	rpcidemtest.RunClient(t, opener(connect.WithGRPC()))
}
