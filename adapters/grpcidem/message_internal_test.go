package grpcidem

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// TestPayload: equal messages have equal bytes, also with maps.
func TestPayload(t *testing.T) {
	t.Parallel()
	fields := map[string]any{}
	for i := range 30 {
		fields[fmt.Sprint("field ", i)] = float64(i)
	}
	var first []byte
	for i := range 20 {
		m, err := structpb.NewStruct(fields)
		assert.NoError(t, err, "message")
		b, err := codec.Payload(m)
		assert.NoError(t, err, "Payload")
		if i == 0 {
			first = b
		}
		assert.True(t, bytes.Equal(b, first), "the bytes of message %d", i)
	}
	_, err := codec.Payload("no message")
	assert.True(t, err != nil, "what is no protocol buffer")
}

// FuzzRead: any stored reply is an answer, an error with the stored code, or an error that says
// that it cannot be read.
func FuzzRead(f *testing.F) {
	f.Add(uint32(0), "google.protobuf.StringValue", []byte{0x0a, 1, 'x'})
	f.Add(uint32(0), "no.such.Type", []byte(nil))
	f.Add(uint32(5), "", []byte{0x08, 5, 0x12, 1, 'm'})
	f.Add(uint32(5), "", []byte{0xFF})
	f.Fuzz(func(t *testing.T, code uint32, kind string, body []byte) {
		m, err := readReply(&rpcidem.Reply{Code: rpcidem.Code(code), Type: kind, Body: body})
		if (m == nil) == (err == nil) {
			t.Fatalf("%d %q %x: %v and %v", code, kind, body, m, err)
		}
		if reason, _ := Reason(err); err != nil && reason != "ANSWER_NOT_READABLE" && uint32(status.Code(err)) != code {
			t.Fatalf("%d %q %x: %v", code, kind, body, err)
		}
	})
}
