package idgen

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestStoredNumberIsFrozen: processes of two builds never have one number at one time, and agree on
// the layout of ids.
func TestStoredNumberIsFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(nil)
		find := func(text string) storeapi.Record {
			var key storeapi.StoreKey
			assert.NoError(t, key.UnmarshalText([]byte(text)), "key")
			rec, err := s.Lookup(t.Context(), key)
			assert.NoError(t, err, "look")
			return rec
		}
		layout := Twitter()
		layout.Epoch = time.Date(1999, 1, 1, 0, 0, 0, 500, time.UTC)
		h, err := NewWorkers(s, &WorkersOptions{Namespace: "shop", Max: 1, Layout: layout, Unsafe: true}).Claim(t.Context())
		assert.NoError(t, err, "Claim")
		all := find("shop/ids//layout/of%20all")
		assert.Equal(t, all.State, storeapi.StateCompleted, "the layout")
		assert.Equal(t, all.Answer.Codec, "idgen/layout", "codec of the layout")
		assert.Equal(t, string(all.Answer.Body), "41+10+12 bits, 1ms from 1999-01-01T00:00:00.0000005Z", "the layout")
		number := find("shop/ids//worker/0")
		assert.Equal(t, number.Answer.Codec, "idgen/until", "codec of a number")
		assert.Equal(t, number.Answer.Body, binary.BigEndian.AppendUint64(nil, uint64(h.Until().UnixNano())), "until")
		assert.Equal(t, number.Answer.Size, h.Until().UnixNano(), "the number of the progress")
		assert.NoError(t, h.Release(t.Context()), "Release")
	})
	stored := retrysafe.Answer{Codec: "idgen/until", Body: []byte{0x18, 0xea, 0x55, 0xd7, 0x32, 0xb3, 0xbc, 0x00}}
	assert.Equal(t, reservedUntil(retrysafe.Record{Answer: stored}).UnixNano(), int64(0x18ea55d732b3bc00), "what is read")
}
