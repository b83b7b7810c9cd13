package rpcidem

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestFormats freezes version 1 of what is stored and compared: a change needs a new version.
func TestFormats(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, r := range []*Reply{
		{Type: "shop.v1.Order", Body: []byte{0x0a, 0x01, 'x'}},
		{Type: "google.protobuf.Empty"},
		{Code: NotFound, Body: []byte{0x08, 0x05, 0x12, 0x01, 'm'}},
		{Type: string(bytes.Repeat([]byte{'t'}, 200)), Body: []byte("b")},
	} {
		fmt.Fprintf(&got, "reply %v %.20s %x: %x\n", r.Code, r.Type, r.Body, r.encode())
		back, err := decodeReply(r.encode())
		assert.NoError(t, err, "decode")
		assert.Equal(t, back.Code, r.Code, "code")
		assert.Equal(t, back.Type, r.Type, "type")
		assert.Equal(t, string(back.Body), string(r.Body), "body")
	}
	fmt.Fprintf(&got, "sum %x\n", payloadDigest("/shop.v1.Orders/Place", []byte{0x0a, 0x01, 'x'}))
	fmt.Fprintf(&got, "codec %s, metadata %s, domain %s\n", codecName, DefaultMetadata, Domain)
	assert.Golden(t, "testdata/formats_v1.golden", got.String())
}

// FuzzDecodeReply: any bytes in a store are a reply or an error, and a decoded reply is the same
// after it is encoded and decoded again.
func FuzzDecodeReply(f *testing.F) {
	for _, b := range [][]byte{
		nil,
		{1},
		{2, 0, 0},
		{1, 0, 0},
		{1, 5, 0, 8, 5},
		{1, 17, 0},
		{1, 0, 200, 1},
		{1, 0, 1, 'x', 'b'},
		{1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01},
		{1, 0x80, 0x80, 0, 0},
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeReply(b)
		if err != nil {
			if r != nil {
				t.Fatalf("%x: a reply and an error", b)
			}
			return
		}
		if r.Code > Unauthenticated || len(r.Type)+len(r.Body) > len(b) {
			t.Fatalf("%x: %+v", b, r)
		}
		again, err := decodeReply(r.encode())
		if err != nil || again.Code != r.Code || again.Type != r.Type || !bytes.Equal(again.Body, r.Body) {
			t.Fatalf("%x is %+v, and written again %+v, %v", b, r, again, err)
		}
	})
}
