package table

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// withColumns returns a row with the fields that have columns of their own, as they are read.
func withColumns(r *protocol.Row) protocol.Row {
	return protocol.Row{
		State: r.State, Owner: r.Owner, Fence: r.Fence, LeaseEnd: r.LeaseEnd, Expires: r.Expires, Updated: r.Updated,
		Answer: storeapi.Answer{Body: r.Answer.Body},
	}
}

func dataRows() []protocol.Row {
	digest := [32]byte{1, 2, 3}
	return []protocol.Row{
		{State: storeapi.StateInProgress, OnDoubt: storeapi.Refuse, Attempt: 1, Created: 5, Updated: 5},
		{
			State: storeapi.StateCompleted, OnDoubt: storeapi.Reexecute, Issued: true, Attempt: 3, Fence: 7, Owner: storeapi.Owner{1},
			Fingerprint: []byte("print"), Binding: []byte{}, Expires: 9, Created: 1_700_000_000_000_000, Updated: 1_700_000_000_000_123,
			NotAfter: 1_700_000_000_500_000, Retention: 86_400_000_000, Cause: "error", LastError: "lost", Asks: true, DoubtBegan: 6,
			Earlier: []storeapi.Worked{{Attempt: 1, Fence: 5}}, Answer: storeapi.Answer{Codec: "json", Kept: true, Body: []byte("{}"), Size: 2, Digest: digest},
		},
		{
			State: storeapi.StateReleased, OnDoubt: storeapi.Refuse, Attempt: 2, Created: 10, Updated: 5, Fingerprint: []byte{},
			Retention: math.MaxInt64, Answer: storeapi.Answer{Body: []byte{}},
		},
	}
}

func TestDataKeepsEveryField(t *testing.T) {
	t.Parallel()
	for _, r := range dataRows() {
		got := withColumns(&r)
		assert.NoError(t, parseData(&got, AppendData(nil, &r)), "parse")
		assert.True(t, reflect.DeepEqual(got, r), "%+v comes back as it was, got %+v", r, got)
	}
}

// TestDataIsFrozen: records of this version exist. A change needs another version number, and this
// version must stay readable.
func TestDataIsFrozen(t *testing.T) {
	t.Parallel()
	golden := []string{
		"01380100000000000000000000",
		"014703f601c084af82838985068080bbdd8305057072696e7400056572726f72046c6f737415050000000000000006000000010000000000000005046a736f6e040102030000000000000000000000000000000000000000000000000000000000",
		"0120020900feffffffffffffffff0100000000000000",
	}
	for i, r := range dataRows() {
		assert.Equal(t, hex.EncodeToString(AppendData(nil, &r)), golden[i], "row %d", i)
		data, err := hex.DecodeString(golden[i])
		assert.NoError(t, err, "hex of row %d", i)
		got := withColumns(&r)
		assert.NoError(t, parseData(&got, data), "parse row %d", i)
		assert.True(t, reflect.DeepEqual(got, r), "row %d is read as %+v", i, got)
	}
}

// TestKeysAreFrozen: rows of this version exist under these ids, and ranges of parts find them.
func TestKeysAreFrozen(t *testing.T) {
	t.Parallel()
	key := storeapi.StoreKey{Namespace: "app", Layer: "http", Key: storeapi.Key{Tenant: "é", Operation: "POST /orders", ID: strings.Repeat("k", 130)}}
	text, err := key.AppendText(nil)
	assert.NoError(t, err, "the text of the key")
	id := IDOf(text)
	assert.Equal(t, hex.EncodeToString(id[:]), "5dedf27ee341bfae6791f217a7e0d042", "SHA-256 of the key text, its first half")
	parts := "\x03app\x04http\x02é\x0cPOST /orders\x82\x01" + key.ID
	assert.Equal(t, string(PartsOf(&key)), parts, "parts")
	back, err := ParseParts([]byte(parts))
	assert.NoError(t, err, "parse")
	assert.Equal(t, back, key, "the key of the parts")
	id = IDOf(protocol.UsageName("app", "ann"))
	assert.Equal(t, hex.EncodeToString(id[:]), "9c434f54507751ae3b92e745bc3a9bf6", "SHA-256 of the name of counts, its first half")
}

func TestDataOfAnotherVersion(t *testing.T) {
	t.Parallel()
	r := dataRows()[0]
	data := AppendData(nil, &r)
	data[0] = 2
	got := withColumns(&r)
	err := parseData(&got, data)
	assert.True(t, err != nil, "another version is refused")
	assert.Contains(t, err.Error(), "format version 2, and this build reads version 1", "the error")
}

func FuzzData(f *testing.F) {
	for _, r := range dataRows() {
		f.Add(AppendData(nil, &r), r.Updated)
	}
	f.Fuzz(func(t *testing.T, data []byte, updated int64) {
		first := protocol.Row{State: storeapi.StateInProgress, Updated: updated}
		if parseData(&first, data) != nil {
			return
		}
		again := withColumns(&first)
		if err := parseData(&again, AppendData(nil, &first)); err != nil || !reflect.DeepEqual(first, again) {
			t.Fatalf("%+v was written and read as %+v (%v)", first, again, err)
		}
	})
}

func FuzzParts(f *testing.F) {
	f.Add("app", "http", "alice", "POST /orders", "k1")
	f.Add("", "", "", "", "")
	f.Fuzz(func(t *testing.T, namespace, layer, tenant, operation, id string) {
		key := storeapi.StoreKey{Namespace: namespace, Layer: layer, Key: storeapi.Key{Tenant: tenant, Operation: operation, ID: id}}
		parts := PartsOf(&key)
		got, err := ParseParts(parts)
		assert.NoError(t, err, "parse")
		assert.Equal(t, got, key, "the key")
		prefix := AppendField(AppendField(AppendField(nil, namespace), layer), tenant)
		end := EndOfPrefix(prefix)
		if !bytes.HasPrefix(parts, prefix) || bytes.Compare(parts, prefix) < 0 || end != nil && bytes.Compare(parts, end) >= 0 {
			t.Fatalf("the key is not in the range of its tenant")
		}
	})
}
