package connectidem_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/connectidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
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

// TestProtocolsMeet: the answer of a call over one protocol is replayed completely over the others:
// messages and errors.
func TestProtocolsMeet(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	doer, url := serve(t, handler(func(_ context.Context, request string) (string, *rpcidemtest.Error) {
		runs.Add(1)
		if request == "none" {
			return "", &rpcidemtest.Error{Code: rpcidem.NotFound, Message: "no such order"}
		}
		return "done", nil
	}, connect.WithInterceptors(connectidem.Server(engine(t), &rpcidem.Options{Tenant: rpcidem.Global}))))
	for i, o := range []connect.ClientOption{connect.WithProtoJSON(), connect.WithGRPC(), connect.WithGRPCWeb(), connect.WithSendGzip()} {
		client := connect.NewClient[text, text](doer, url+rpcidemtest.Path, o, connect.WithInterceptors(connectidem.Client(nil)))
		ctx := httpidem.ContextWithKey(t.Context(), "k")
		resp, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("x")))
		assert.NoError(t, err, "call %d", i)
		assert.Equal(t, resp.Msg.GetValue(), "done", "answer %d", i)
		assert.Equal(t, told(resp.Header(), "replayed"), i > 0, "answer %d is a replay", i)
		_, err = client.CallUnary(httpidem.ContextWithKey(ctx, "l"), connect.NewRequest(wrapperspb.String("none")))
		a := answer(t, err)
		assert.Equal(t, a.Code, rpcidem.NotFound, "error %d", i)
		assert.Equal(t, a.Replayed, i > 0, "error %d is a replay", i)
		e, _ := errors.AsType[*connect.Error](err)
		assert.Equal(t, len(e.Details()), 1, "details of error %d", i)
	}
	assert.Equal(t, runs.Load(), int64(2), "runs")
}

// TestWithoutSideEffects: a method that Connect may send by GET passes, with and without a key, and
// gets no key from the client.
func TestWithoutSideEffects(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	reads := connect.WithIdempotency(connect.IdempotencyNoSideEffects)
	var seen atomic.Value
	doer, url := serve(t, handler(func(context.Context, string) (string, *rpcidemtest.Error) {
		runs.Add(1)
		return "read", nil
	}, reads, connect.WithInterceptors(
		connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				seen.Store(req.HTTPMethod() + " " + req.Header().Get(rpcidem.DefaultMetadata))
				return next(ctx, req)
			}
		}),
		connectidem.Server(engine(t), &rpcidem.Options{Tenant: rpcidem.Global, Key: rpcidem.Required}))))
	client := connect.NewClient[text, text](doer, url+rpcidemtest.Path, reads, connect.WithHTTPGet(), connect.WithInterceptors(connectidem.Client(nil)))
	for i := range int64(2) {
		resp, err := client.CallUnary(httpidem.ContextWithKey(t.Context(), "k"), connect.NewRequest(wrapperspb.String("x")))
		assert.NoError(t, err, "call")
		assert.Equal(t, told(resp.Header(), "replayed"), false, "a replay")
		assert.Equal(t, runs.Load(), i+1, "runs")
		assert.Equal(t, seen.Load(), any("GET "), "method and key")
	}
}

// TestStreams: a stream with a key is refused, one without passes.
func TestStreams(t *testing.T) {
	t.Parallel()
	doer, url := serve(t, connect.NewServerStreamHandler(rpcidemtest.Path, func(_ context.Context, _ *connect.Request[text], out *connect.ServerStream[text]) error {
		return out.Send(wrapperspb.String("part"))
	}, connect.WithInterceptors(connectidem.Server(engine(t), &rpcidem.Options{Tenant: rpcidem.Global}))))
	client := connect.NewClient[text, text](doer, url+rpcidemtest.Path, connect.WithInterceptors(connectidem.Client(nil)))
	for _, key := range []string{"", "k"} {
		req := connect.NewRequest(wrapperspb.String("x"))
		if key != "" {
			req.Header().Set(rpcidem.DefaultMetadata, key)
		}
		stream, err := client.CallServerStream(t.Context(), req)
		assert.NoError(t, err, "stream")
		assert.Equal(t, stream.Receive(), key == "", "a message comes, key %q", key)
		reason, _ := connectidem.Reason(stream.Err())
		assert.Equal(t, reason, map[bool]string{true: "STREAM_NOT_GUARDED"}[key != ""], "reason, key %q", key)
		assert.NoError(t, stream.Close(), "close")
	}
}

// schema returns the method of the suite as generated code describes it.
func schema(t *testing.T) protoreflect.MethodDescriptor {
	t.Helper()
	words := proto.String(".google.protobuf.StringValue")
	f, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("rpcidemtest.proto"), Package: proto.String("rpcidemtest"), Dependency: []string{"google/protobuf/wrappers.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Suite"), Method: []*descriptorpb.MethodDescriptorProto{{Name: proto.String("Do"), InputType: words, OutputType: words}},
		}},
	}, protoregistry.GlobalFiles)
	assert.NoError(t, err, "schema")
	return f.Services().Get(0).Methods().Get(0)
}

// TestAnotherType: a stored message that is not of the method's type is not returned.
func TestAnotherType(t *testing.T) {
	t.Parallel()
	e := engine(t)
	doer, url := serve(t, handler(func(context.Context, string) (string, *rpcidemtest.Error) {
		return "done", nil
	}, connect.WithSchema(schema(t)), connect.WithInterceptors(connectidem.Server(e, &rpcidem.Options{Tenant: rpcidem.Global}))))
	client := connect.NewClient[text, text](doer, url+rpcidemtest.Path, connect.WithInterceptors(connectidem.Client(nil)))
	for id, kept := range map[string]*rpcidem.Reply{
		"other":   {Type: "google.protobuf.Int32Value"},
		"gone":    {Type: "rpcidemtest.NoSuchType"},
		"damaged": {Type: "google.protobuf.StringValue", Body: []byte{0xFF}},
		"status":  {Code: rpcidem.NotFound, Body: []byte{0xFF}},
		"code":    {Code: rpcidem.NotFound, Body: []byte{0x08, 0x07}},
	} {
		ctx := httpidem.ContextWithKey(t.Context(), id)
		a, _, err := e.Layer("rpc").Begin(ctx, retrysafe.Key{Tenant: "global", Operation: rpcidemtest.Path, ID: retrysafe.KeyPart(id)})
		assert.NoError(t, err, "begin")
		answer, err := rpcidem.StoredReply(kept)
		assert.NoError(t, err, "answer")
		assert.NoError(t, a.Complete(ctx, answer), "complete")
		_, err = client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("x")))
		reason, _ := connectidem.Reason(err)
		assert.Equal(t, reason, "ANSWER_NOT_READABLE", "%s: %v", id, err)
	}
}
