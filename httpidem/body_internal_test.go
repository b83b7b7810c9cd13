package httpidem

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestBodiesTakeTheirRoomOnce tests that a handler reads a body from the memory that Bodies has
// reserved: a copy would be memory that nothing bounds. Small bodies need no room, and are copied.
func TestBodiesTakeTheirRoomOnce(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, freeBody, freeBody + 1, 100_000, 1 << 20} {
		for _, length := range []int64{int64(size), -1} {
			room := NewBodies(4 << 20)
			r := httptest.NewRequest("POST", "/", io.NopCloser(bytes.NewReader(bytes.Repeat([]byte("a"), size))))
			r.ContentLength = length
			b, p := readBody(r, 1<<20, room.beginArrival(func() {}))
			assert.True(t, p == nil, "a body of %d bytes is read", size)
			seen := b.requestBody()
			for i := range b.b {
				b.b[i] = 'b'
			}
			got, err := io.ReadAll(seen)
			assert.NoError(t, err, "reading a body of %d bytes", size)
			assert.Equal(t, len(got), size, "bytes")
			assert.Equal(t, got[0] == 'b', size > freeBody, "a body of %d bytes, announced as %d, is in one place", size, length)
			b.free()
			if size > freeBody { // a smaller one belongs to the next request by now
				assert.True(t, b.b == nil, "a body of %d bytes is not reused", size)
			}
			assert.Equal(t, room.Used(), int64(0), "room in use")
		}
	}
}
