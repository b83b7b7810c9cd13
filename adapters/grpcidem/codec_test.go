package grpcidem_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
)

// protoCodec stores answers that are protocol buffers, such as *paymentv1.Receipt.
type protoCodec struct{}

func (protoCodec) Name() string { return "proto" }

func (protoCodec) Encode(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, errors.New("it is no protocol buffer")
	}
	return proto.Marshal(m)
}

// Decode gets a pointer to a nil *paymentv1.Receipt, and makes the message.
func (protoCodec) Decode(b []byte, v any) error {
	p := reflect.ValueOf(v).Elem()
	m := reflect.New(p.Type().Elem())
	p.Set(m)
	return proto.Unmarshal(b, m.Interface().(proto.Message))
}

// Answers that are protocol buffers need a codec of their own: encoding/json does not keep them.
func Example_codec() {
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: protoCodec{}, Secret: []byte("0123456789abcdef")})
	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "order-7"}
	for range 2 {
		res, err := retrysafe.Do(context.Background(), e, key, func(context.Context) (*structpb.Value, error) {
			return structpb.NewStringValue("paid"), nil
		})
		fmt.Println(res.Value.GetStringValue(), res.Replayed, err)
	}
	// Output:
	// paid false <nil>
	// paid true <nil>
}

// TestProtocolBuffersAsJSON: the default codec refuses protocol buffers before the work runs, alone
// and in a field.
func TestProtocolBuffersAsJSON(t *testing.T) {
	t.Parallel()
	type receipt struct{ Status *structpb.NullValue }
	type holding struct{ List *structpb.ListValue }
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("0123456789abcdef")})
	refusedAs[*spb.Status](t, e, "a message")
	refusedAs[struct{ S *spb.Status }](t, e, "a message in a field")
	_, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "o", ID: "enum"}, func(context.Context) (receipt, error) { return receipt{}, nil })
	assert.NoError(t, err, "an enum is a number")
	// It encodes itself as JSON, as few messages do.
	list := &structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1)}}
	for i := range 2 {
		res, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "o", ID: "list"}, func(context.Context) (holding, error) { return holding{list}, nil })
		assert.NoError(t, err, "call %d", i)
		assert.True(t, proto.Equal(res.Value.List, list), "list of call %d: %v", i, res.Value.List)
	}
}

func refusedAs[T any](t *testing.T, e *retrysafe.Engine, what string) {
	t.Helper()
	_, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "o", ID: what}, func(context.Context) (v T, err error) {
		t.Errorf("%s: the work ran", what)
		return v, nil
	})
	assert.Contains(t, fmt.Sprint(err), "protocol buffers", "%s", what)
}
