package http_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	kerrors "github.com/go-kratos/kratos/v2/errors"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/connectidem"
	"github.com/retrysafe/retrysafe/adapters/grpcidem"
	"github.com/retrysafe/retrysafe/adapters/kratosidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const orderMethod = "/shop.v1.Orders/Place"

type rpcText = wrapperspb.StringValue

// rpcCall is a call of orderMethod over some protocol. It returns the answer or the error.
type rpcCall func(ctx context.Context, request string) (string, *rpcError)

type rpcError struct {
	Code    rpcidem.Code
	Message string
	Reason  string
}

// orders is the service: it counts its runs, and fails as gRPC does.
type orders struct{ runs atomic.Int64 }

func (o *orders) place(request string) (*rpcText, error) {
	n := o.runs.Add(1)
	if request == "none" {
		st, err := status.New(codes.NotFound, "no such tea").WithDetails(&errdetails.ErrorInfo{Reason: "NO_TEA", Domain: "shop"})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	return wrapperspb.String("order " + strconv.FormatInt(n, 10)), nil
}

func overGRPC(t *testing.T, e *retrysafe.Engine, o *orders) rpcCall {
	t.Helper()
	s := grpc.NewServer(grpc.UnaryInterceptor(grpcidem.UnaryServer(e, &rpcidem.Options{Tenant: rpcidem.Global})))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "shop.v1.Orders", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Place",
		Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := new(rpcText)
			if err := decode(in); err != nil {
				return nil, err
			}
			return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: orderMethod}, func(context.Context, any) (any, error) { return o.place(in.GetValue()) })
		},
	}}}, new(any))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(grpcidem.UnaryClient(nil)))
	assert.NoError(t, err, "connect")
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // stopped before it has begun
			assert.NoError(t, err, "Serve")
		}
	})
	return func(ctx context.Context, request string) (string, *rpcError) {
		reply := new(rpcText)
		err := conn.Invoke(ctx, orderMethod, wrapperspb.String(request), reply)
		if err == nil {
			return reply.GetValue(), nil
		}
		st := status.Convert(err)
		failed := &rpcError{Code: rpcidem.Code(st.Code()), Message: st.Message()}
		for _, d := range st.Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				failed.Reason = info.GetReason()
			}
		}
		return "", failed
	}
}

func overConnect(t *testing.T, e *retrysafe.Engine, o *orders) rpcCall {
	t.Helper()
	s := httptest.NewServer(connect.NewUnaryHandler(orderMethod, func(_ context.Context, req *connect.Request[rpcText]) (*connect.Response[rpcText], error) {
		m, err := o.place(req.Msg.GetValue())
		if err != nil {
			st := status.Convert(err)
			failed := connect.NewError(connect.Code(st.Code()), errors.New(st.Message()))
			for _, detail := range st.Proto().GetDetails() {
				if d, err := connect.NewErrorDetail(detail); err == nil {
					failed.AddDetail(d)
				}
			}
			return nil, failed
		}
		return connect.NewResponse(m), nil
	}, connect.WithInterceptors(connectidem.Server(e, &rpcidem.Options{Tenant: rpcidem.Global}))))
	t.Cleanup(s.Close)
	client := connect.NewClient[rpcText, rpcText](s.Client(), s.URL+orderMethod, connect.WithProtoJSON(), connect.WithInterceptors(connectidem.Client(nil)))
	return func(ctx context.Context, request string) (string, *rpcError) {
		resp, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String(request)))
		if err == nil {
			return resp.Msg.GetValue(), nil
		}
		own, ok := errors.AsType[*connect.Error](err)
		assert.True(t, ok, "an error of Connect: %v", err)
		failed := &rpcError{Code: rpcidem.Code(own.Code()), Message: own.Message()}
		for _, d := range own.Details() {
			if m, err := d.Value(); err == nil {
				if info, ok := m.(*errdetails.ErrorInfo); ok {
					failed.Reason = info.GetReason()
				}
			}
		}
		return "", failed
	}
}

func overKratos(t *testing.T, e *retrysafe.Engine, o *orders) rpcCall {
	t.Helper()
	k := khttp.NewServer(khttp.Middleware(kratosidem.Server(e, &rpcidem.Options{Tenant: rpcidem.Global})))
	k.Route("/").POST("/orders", func(c khttp.Context) error {
		in := new(rpcText)
		if err := c.Bind(in); err != nil {
			return err
		}
		khttp.SetOperation(c, orderMethod)
		out, err := c.Middleware(func(context.Context, any) (any, error) { return o.place(in.GetValue()) })(c, in)
		if err != nil {
			return err
		}
		return c.Result(http.StatusOK, out)
	})
	s := httptest.NewServer(k)
	t.Cleanup(s.Close)
	client, err := khttp.NewClient(t.Context(), khttp.WithEndpoint(s.Listener.Addr().String()), khttp.WithTimeout(time.Minute), khttp.WithMiddleware(kratosidem.Client(nil)))
	assert.NoError(t, err, "client")
	return func(ctx context.Context, request string) (string, *rpcError) {
		reply := new(rpcText)
		err := client.Invoke(ctx, http.MethodPost, "/orders", wrapperspb.String(request), reply)
		if err == nil {
			return reply.GetValue(), nil
		}
		own := kerrors.FromError(err)
		return "", &rpcError{Code: rpcidem.Code(own.GRPCStatus().Code()), Message: own.Message, Reason: own.Reason}
	}
}

// TestRPCProtocolsMeet: what was done over one protocol is replayed over every other one, messages
// and errors, whichever came first.
func TestRPCProtocolsMeet(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	o := new(orders)
	calls := []rpcCall{overGRPC(t, e, o), overConnect(t, e, o), overKratos(t, e, o)}
	for first := range calls {
		runs := o.runs.Load()
		ctx := httpidem.ContextWithKey(t.Context(), "order "+strconv.Itoa(first))
		gone := httpidem.ContextWithKey(t.Context(), "gone "+strconv.Itoa(first))
		for i := range calls {
			call := calls[(first+i)%len(calls)]
			reply, failed := call(ctx, "tea")
			assert.True(t, failed == nil, "protocol %d after %d: %+v", (first+i)%len(calls), first, failed)
			assert.Equal(t, reply, "order "+strconv.FormatInt(runs+1, 10), "protocol %d after %d: the answer", (first+i)%len(calls), first)
			_, failed = call(gone, "none")
			assert.Equal(t, failed, &rpcError{rpcidem.NotFound, "no such tea", "NO_TEA"}, "protocol %d after %d: the error", (first+i)%len(calls), first)
			_, failed = call(ctx, "coffee")
			assert.True(t, failed != nil && failed.Reason == "PAYLOAD_MISMATCH", "protocol %d after %d: another request: %+v", (first+i)%len(calls), first, failed)
		}
		assert.Equal(t, o.runs.Load(), runs+2, "runs")
	}
}
