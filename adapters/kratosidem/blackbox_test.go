package kratosidem_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-kratos/kratos/v2/errors"
	"github.com/go-kratos/kratos/v2/log"
	"github.com/go-kratos/kratos/v2/middleware"
	"github.com/go-kratos/kratos/v2/middleware/recovery"
	"github.com/go-kratos/kratos/v2/transport"
	kgrpc "github.com/go-kratos/kratos/v2/transport/grpc"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	httpstatus "github.com/go-kratos/kratos/v2/transport/http/status"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/adapters/kratosidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/rpcidem/rpcidemtest"
)

type text = wrapperspb.StringValue

func TestMain(m *testing.M) {
	log.SetLogger(log.NewStdLogger(io.Discard))
	m.Run()
}

// protocolError turns an error of the suite into an error of a protocol.
type protocolError func(*rpcidemtest.Error) error

// grpcFailure returns an error of gRPC, with details.
func grpcFailure(f *rpcidemtest.Error) error {
	details := []protoadapt.MessageV1{&errdetails.DebugInfo{Detail: "a detail"}}
	if f.Reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: f.Reason, Domain: rpcidem.Domain})
	}
	if f.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.RetryAfter)})
	}
	st, err := status.New(codes.Code(f.Code), f.Message).WithDetails(details...)
	if err != nil {
		return err
	}
	return mark(f, st.Err())
}

// httpFailure returns an error that Kratos sends over HTTP. HTTP has fewer codes, so the suite's
// code is in the metadata.
func httpFailure(f *rpcidemtest.Error) error {
	md := map[string]string{"code": f.Code.String()}
	if f.Reason != "" {
		md[kratosidem.DomainMetadata] = rpcidem.Domain
	}
	if f.RetryAfter > 0 {
		md[kratosidem.DelayMetadata] = f.RetryAfter.String()
	}
	st, err := status.New(codes.Code(f.Code), f.Message).WithDetails(&errdetails.ErrorInfo{Reason: f.Reason, Metadata: md})
	if err != nil {
		return err
	}
	return mark(f, st.Err())
}

func mark(f *rpcidemtest.Error, err error) error {
	if f.Mark != nil {
		return f.Mark(err)
	}
	return err
}

// chain returns the middleware of the suite's servers.
func chain(w *rpcidemtest.Setup, fail protocolError) []middleware.Middleware {
	between := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req any) (resp any, err error) {
			if w.Between == nil {
				return next(ctx, req)
			}
			if f := w.Between(func() { resp, err = next(ctx, req) }); f != nil {
				return nil, fail(f)
			}
			return resp, err
		}
	}
	return []middleware.Middleware{recovery.Recovery(), between, kratosidem.Server(w.Engine, w.Options)}
}

// method returns a method of the suite as a handler of Kratos.
func method(m rpcidemtest.Method, fail protocolError) middleware.Handler {
	return func(ctx context.Context, req any) (any, error) {
		reply, failed := m(ctx, req.(*text).GetValue()) //nolint:errcheck // as decoded
		if failed != nil {
			return nil, fail(failed)
		}
		return wrapperspb.String(reply), nil
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	return l
}

// serve runs a server until the test ends.
func serve(t *testing.T, start, stop func(context.Context) error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- start(context.Background()) }()
	t.Cleanup(func() {
		assert.NoError(t, stop(context.Background()), "Stop")
		if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) { // stopped before it has begun
			assert.NoError(t, err, "Start")
		}
	})
}

// service describes the service of the suite as generated code does.
func service(h middleware.Handler) *grpc.ServiceDesc {
	handle := func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(text)
		if err := decode(in); err != nil {
			return nil, err
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: rpcidemtest.Path}, grpc.UnaryHandler(h))
	}
	return &grpc.ServiceDesc{
		ServiceName: "rpcidemtest.Suite", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: handle}},
	}
}

func openGRPC(t *testing.T, w *rpcidemtest.Setup) func(context.Context, rpcidemtest.Call) rpcidemtest.Answer {
	t.Helper()
	l := listen(t)
	s := kgrpc.NewServer(kgrpc.Listener(l), kgrpc.Timeout(0), kgrpc.Middleware(chain(w, grpcFailure)...))
	s.RegisterService(service(method(w.Method, grpcFailure)), new(any))
	serve(t, s.Start, s.Stop)
	conn, err := kgrpc.DialInsecure(t.Context(), kgrpc.WithEndpoint(l.Addr().String()), kgrpc.WithTimeout(0),
		kgrpc.WithHealthCheck(false), kgrpc.WithMiddleware(kratosidem.Client(w.Client)))
	assert.NoError(t, err, "connect")
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context, c rpcidemtest.Call) rpcidemtest.Answer {
		if c.Tenant != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "tenant", c.Tenant)
		}
		for _, k := range c.Keys {
			ctx = metadata.AppendToOutgoingContext(ctx, rpcidem.DefaultMetadata, k)
		}
		var head metadata.MD
		reply := new(text)
		err := conn.Invoke(ctx, rpcidemtest.Path, wrapperspb.String(c.Request), reply, grpc.Header(&head))
		st := status.Convert(err)
		a := rpcidemtest.Answer{
			Reply: reply.GetValue(), Code: rpcidem.Code(st.Code()), Message: st.Message(),
			Replayed: len(head.Get("idempotency-replayed")) == 1, Unconfirmed: len(head.Get("idempotency-stored")) == 1,
		}
		for _, d := range st.Details() {
			switch d := d.(type) {
			case *errdetails.ErrorInfo:
				a.Reason = d.GetReason()
			case *errdetails.RetryInfo:
				a.RetryAfter = d.GetRetryDelay().AsDuration()
			case *errdetails.DebugInfo:
				assert.Equal(t, d.GetDetail(), "a detail", "the detail of an error, replayed or not")
			}
		}
		own := errors.FromError(err)
		if err != nil && own.Code == 400 && own.Reason == "KEY_MALFORMED" {
			a.Code = rpcidem.InvalidArgument // from the client; nothing was sent
		}
		return a
	}
}

// route binds the suite's operation to HTTP as generated code does.
func route(s *khttp.Server, h middleware.Handler) {
	s.Route("/").POST("/do", func(c khttp.Context) error {
		in := new(text)
		if err := c.Bind(in); err != nil {
			return err
		}
		khttp.SetOperation(c, rpcidemtest.Path)
		out, err := c.Middleware(h)(c, in)
		if err != nil {
			return err
		}
		return c.Result(http.StatusOK, out.(*text)) //nolint:errcheck // as generated code does
	})
}

// answeredKey is the context key of a place for the header of an answer. Kratos provides such a
// place only for answers of 2xx.
type answeredKey struct{}

func answered(next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req any) (any, error) {
		resp, err := next(ctx, req)
		if tr, ok := transport.FromClientContext(ctx); ok {
			*ctx.Value(answeredKey{}).(*transport.Header) = tr.ReplyHeader() //nolint:errcheck // as set below
		}
		return resp, err
	}
}

func openHTTP(t *testing.T, w *rpcidemtest.Setup) func(context.Context, rpcidemtest.Call) rpcidemtest.Answer {
	t.Helper()
	l := listen(t)
	s := khttp.NewServer(khttp.Listener(l), khttp.Timeout(0), khttp.Middleware(chain(w, httpFailure)...))
	route(s, method(w.Method, httpFailure))
	serve(t, s.Start, s.Stop)
	over := &http.Transport{}
	client, err := khttp.NewClient(t.Context(), khttp.WithEndpoint(l.Addr().String()), khttp.WithTimeout(time.Minute),
		khttp.WithTransport(over), khttp.WithMiddleware(answered, kratosidem.Client(w.Client)))
	assert.NoError(t, err, "client")
	t.Cleanup(over.CloseIdleConnections)
	return func(ctx context.Context, c rpcidemtest.Call) rpcidemtest.Answer {
		head := http.Header{}
		if c.Tenant != "" {
			head.Set("tenant", c.Tenant)
		}
		for _, k := range c.Keys {
			head.Add(rpcidem.DefaultMetadata, k)
		}
		fields := new(transport.Header)
		ctx = context.WithValue(ctx, answeredKey{}, fields)
		reply := new(text)
		err := client.Invoke(ctx, http.MethodPost, "/do", wrapperspb.String(c.Request), reply, khttp.Header(&head))
		a := rpcidemtest.Answer{Reply: reply.GetValue()}
		if *fields != nil {
			a.Replayed, a.Unconfirmed = (*fields).Get("idempotency-replayed") == "true", (*fields).Get("idempotency-stored") == "unconfirmed"
		}
		if err != nil {
			readHTTP(t, err, &a)
		}
		return a
	}
}

// readHTTP parses an error of Kratos.
func readHTTP(t *testing.T, err error, a *rpcidemtest.Answer) {
	t.Helper()
	own := errors.FromError(err)
	a.Code, a.Message, a.Reason = rpcidem.Internal, own.Message, own.Reason
	if d := own.Metadata[kratosidem.DelayMetadata]; d != "" {
		a.RetryAfter, err = time.ParseDuration(d)
		assert.NoError(t, err, "the time to wait")
	}
	for code := rpcidem.OK; code <= rpcidem.Unauthenticated; code++ {
		if own.Metadata["code"] == code.String() {
			a.Code = code
		}
	}
	if _, ok := kratosidem.Reason(own); ok && own.Metadata["code"] == "" {
		a.Code = rpcidem.NewRefusal(own.Reason, nil).Code
	} else if own.Reason == "KEY_MALFORMED" {
		a.Code = rpcidem.InvalidArgument
	}
	if own.Metadata != nil {
		assert.Equal(t, int(own.Code), httpstatus.FromGRPCCode(codes.Code(a.Code)), "the status of %s", own.Reason)
	}
}

func TestBlackBox(t *testing.T) {
	t.Parallel()
	t.Run("GRPC", func(t *testing.T) {
		t.Parallel()
		rpcidemtest.Run(t, openGRPC)
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		rpcidemtest.Run(t, openHTTP)
	})
}

func TestBlackBoxClient(t *testing.T) {
	t.Parallel()
	t.Run("GRPC", func(t *testing.T) {
		t.Parallel()
		rpcidemtest.RunClient(t, openGRPC)
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		rpcidemtest.RunClient(t, openHTTP)
	})
}
