package grpcidem_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/adapters/grpcidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/rpcidem/rpcidemtest"
)

// suite is the service of the suite: its messages are texts.
func suite(method rpcidemtest.Method) *grpc.ServiceDesc {
	handle := func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		work := func(ctx context.Context, req any) (any, error) {
			reply, failed := method(ctx, req.(*wrapperspb.StringValue).GetValue()) //nolint:errcheck // as decoded
			if failed != nil {
				return nil, failure(failed)
			}
			return wrapperspb.String(reply), nil
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: rpcidemtest.Path}, work)
	}
	return &grpc.ServiceDesc{
		ServiceName: "rpcidemtest.Suite", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: handle}},
	}
}

// failure returns an error of the suite as an error of gRPC.
func failure(f *rpcidemtest.Error) error {
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
	if err = st.Err(); f.Mark != nil {
		err = f.Mark(err)
	}
	return err
}

// between calls the suite's Between before the guard.
func between(b func(func()) *rpcidemtest.Error) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		if b == nil {
			return handler(ctx, req)
		}
		if f := b(func() { resp, err = handler(ctx, req) }); f != nil {
			return nil, failure(f)
		}
		return resp, err
	}
}

// recovered ends the call of a method that panics.
func recovered(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "recovered")
		}
	}()
	return handler(ctx, req)
}

// serve starts a server on loopback and connects to it.
func serve(t *testing.T, s *grpc.Server, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	assert.NoError(t, err, "connect")
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // stopped before it has begun
			assert.NoError(t, err, "Serve")
		}
	})
	return conn
}

func open(t *testing.T, w *rpcidemtest.Setup) func(context.Context, rpcidemtest.Call) rpcidemtest.Answer {
	t.Helper()
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(recovered, between(w.Between), grpcidem.UnaryServer(w.Engine, w.Options)))
	s.RegisterService(suite(w.Method), new(any))
	conn := serve(t, s, grpc.WithChainUnaryInterceptor(grpcidem.UnaryClient(w.Client)))
	return func(ctx context.Context, c rpcidemtest.Call) rpcidemtest.Answer {
		if c.Tenant != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "tenant", c.Tenant)
		}
		for _, k := range c.Keys {
			ctx = metadata.AppendToOutgoingContext(ctx, rpcidem.DefaultMetadata, k)
		}
		var head metadata.MD
		reply := new(wrapperspb.StringValue)
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
		return a
	}
}

func TestBlackBox(t *testing.T) {
	t.Parallel()
	rpcidemtest.Run(t, open)
}

func TestBlackBoxClient(t *testing.T) {
	t.Parallel()
	rpcidemtest.RunClient(t, open)
}

// TestReplaysAreWhole: a duplicate gets the details of an error.
func TestReplaysAreWhole(t *testing.T) {
	t.Parallel()
	s := grpc.NewServer(grpc.UnaryInterceptor(grpcidem.UnaryServer(engine(t), &rpcidem.Options{Tenant: rpcidem.Global})))
	s.RegisterService(suite(func(context.Context, string) (string, *rpcidemtest.Error) {
		return "", &rpcidemtest.Error{Code: rpcidem.NotFound, Message: "no such order"}
	}), new(any))
	conn := serve(t, s)
	for i := range 2 {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k"), 2*time.Minute)
		defer cancel()
		st := status.Convert(conn.Invoke(ctx, rpcidemtest.Path, wrapperspb.String("x"), new(wrapperspb.StringValue)))
		assert.Equal(t, st.Code(), codes.NotFound, "answer %d", i)
		assert.Equal(t, len(st.Details()), 1, "details of answer %d", i)
	}
}
