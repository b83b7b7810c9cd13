package grpcidem_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/grpcidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func engine(t *testing.T) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("16 bytes or more"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// TestStreams: a stream with a key is refused, one without passes.
func TestStreams(t *testing.T) {
	t.Parallel()
	s := grpc.NewServer(grpc.StreamInterceptor(grpcidem.StreamServer(nil)))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "x.Y", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Z", ServerStreams: true, Handler: func(any, grpc.ServerStream) error { return nil },
	}}}, new(any))
	conn := serve(t, s)
	for key, want := range map[string]error{"": io.EOF, "k": nil} {
		ctx := t.Context()
		if key != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
		}
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/x.Y/Z")
		assert.NoError(t, err, "stream")
		err = stream.RecvMsg(new(wrapperspb.StringValue))
		if want != nil {
			assert.ErrorIs(t, err, want, "without a key")
			continue
		}
		reason, ok := grpcidem.Reason(err)
		assert.True(t, ok && reason == "STREAM_NOT_GUARDED", "with a key: %v", err)
	}
}
