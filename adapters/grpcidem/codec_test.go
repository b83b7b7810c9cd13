package grpcidem_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
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

// TestProtocolBuffersAsJSON: with the default codec, both callers get what JSON makes of a message,
// or both get an error: JSON cannot read a oneof.
func TestProtocolBuffersAsJSON(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Sweep: -1, Secret: []byte("0123456789abcdef")})
	plain := func(context.Context) (*spb.Status, error) { return &spb.Status{Code: 7, Message: "paid"}, nil }
	var first, second *spb.Status
	for i, got := range []**spb.Status{&first, &second} {
		res, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "o", ID: "plain"}, plain)
		assert.NoError(t, err, "call %d", i)
		*got = res.Value
	}
	assert.True(t, first.GetMessage() == "paid" && proto.Equal(first, second), "messages: %v, %v", first, second)

	type kind struct{ *descriptorpb.FeatureSet } // it has extensions
	res, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "o", ID: "wrapped"}, func(context.Context) (kind, error) {
		return kind{&descriptorpb.FeatureSet{}}, nil
	})
	again, err2 := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "o", ID: "wrapped"}, func(context.Context) (kind, error) {
		t.Error("it runs again")
		return kind{}, nil
	})
	assert.True(t, err == nil && err2 == nil && proto.Equal(res.Value.FeatureSet, again.Value.FeatureSet), "an embedded message: %v, %v", err, err2)
}
