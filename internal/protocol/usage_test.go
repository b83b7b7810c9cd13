package protocol_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

const goldenUsage = "testdata/usage_v1.golden"

var usages = []protocol.Usage{
	{},
	{Rates: []protocol.Rate{{Every: 20_000, Next: minute + 60_000}}},
	{Buckets: []protocol.Bucket{{Ends: minute + 86_400_000_000, Keys: 7, Bytes: 1 << 40}}},
	{
		Rates:   []protocol.Rate{{Every: 20_000, Next: minute + 60_000}, {Every: 1_000_000, Next: minute + 1_000_000}},
		Buckets: []protocol.Bucket{{Ends: minute + 1, Keys: 1}, {Ends: minute + 2, Bytes: 2}, {Ends: 1 << 53, Keys: 3, Bytes: 4}},
	},
}

func TestUsageGolden(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	for _, u := range usages {
		packed, err := u.AppendBinary(nil)
		assert.NoError(t, err, "AppendBinary")
		fmt.Fprintln(&file, hex.EncodeToString(packed))
		got, err := protocol.ParseUsage(packed)
		assert.NoError(t, err, "ParseUsage")
		assert.Equal(t, got, u, "what was packed")
	}
	fmt.Fprintf(&file, "%s\n", protocol.UsageName("app", "a/b ~ü"))
	fmt.Fprintf(&file, "%s\n", protocol.UsageName("app", ""))
	assert.Golden(t, goldenUsage, file.String())
}

func TestParseUsageRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1} { // no bytes, and no counts
		u, err := protocol.ParseUsage(make([]byte, 0, n))
		assert.True(t, err == nil && u.Empty() && u.Expires() == 0, "nothing is counted: %v", err)
	}
	whole, _ := usages[3].AppendBinary(nil)
	for n := 1; n < len(whole); n++ {
		if rest := n - 3 - 2*16; rest >= 0 && rest%24 == 0 {
			continue // fewer buckets
		}
		_, err := protocol.ParseUsage(whole[:n])
		assert.True(t, err != nil, "the first %d of %d bytes are refused", n, len(whole))
	}
	_, err := protocol.ParseUsage(edit(whole, 0, 2))
	assert.Contains(t, fmt.Sprint(err), "update this program", "another version")
	_, err = (&protocol.Usage{Rates: make([]protocol.Rate, 1<<16)}).AppendBinary(nil)
	assert.True(t, err != nil, "too many rates are an error, never cut")
}

func FuzzParseUsage(f *testing.F) {
	for _, u := range usages {
		packed, _ := u.AppendBinary(nil)
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		u, err := protocol.ParseUsage(packed)
		if err != nil || len(packed) == 0 {
			return
		}
		again, err := u.AppendBinary(nil)
		assert.NoError(t, err, "AppendBinary of what was parsed")
		assert.True(t, bytes.Equal(again, packed), "each usage has one packed form: got %x, want %x", again, packed)
	})
}
