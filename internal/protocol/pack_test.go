package protocol_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

const golden = "testdata/packed_v1.golden"

// minute is a time in 2026, in microseconds.
const minute protocol.Micros = 1_774_746_000_000_000

// rows returns rows with each state, and with each field once empty and once not.
func rows() map[string]protocol.Row {
	owner := storeapi.Owner{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf}
	running := protocol.Row{
		State: storeapi.StateInProgress, OnDoubt: storeapi.Refuse, Attempt: 1, Fence: 1_774_746_000_000_000, Owner: owner,
		LeaseEnd: minute + 30_000_000, Created: minute, Updated: minute, Retention: 86_400_000_000,
	}
	full := running
	full.Issued, full.OnDoubt, full.Attempt, full.Fence = true, storeapi.Reexecute, 7, 1<<53-1
	full.Fingerprint, full.Binding = []byte("\x01fingerprint"), []byte("binding")
	full.Expires, full.NotAfter, full.Updated = minute+86_430_000_000, minute+5_000_000, minute+1
	done := running
	done.State, done.LeaseEnd, done.Expires = storeapi.StateCompleted, 0, minute+86_400_000_000
	done.Answer = storeapi.Answer{Codec: "json", Body: []byte(`{"id":"ch_1"}`), Kept: true}
	empty, none, large, hijacked := done, done, done, done
	empty.Answer = storeapi.Answer{Codec: "raw", Body: []byte{}, Kept: true}
	none.Answer = storeapi.Answer{Codec: "raw", Kept: true}
	large.Answer = storeapi.Answer{Codec: "message/http", Body: []byte("HTTP/1.1 200 OK\r\n\r\n"), Size: 5 << 20, Digest: sha256.Sum256([]byte("x"))}
	hijacked.Answer = storeapi.Answer{Codec: "message/http", Digest: sha256.Sum256(nil)}
	failed := done
	failed.State, failed.Expires = storeapi.StateFailed, 0
	failed.Answer = storeapi.Answer{Codec: "failure", Body: []byte(`{"code":"declined"}`), Kept: true}
	doubt := running
	doubt.LeaseEnd, doubt.Cause, doubt.LastError = 0, "panic", "nil pointer"
	doubt.Fingerprint, doubt.Binding = []byte{}, []byte{}
	released := doubt
	released.State, released.Cause, released.LastError = storeapi.StateReleased, "error", strings.Repeat("e", 1024)
	released.Fingerprint, released.Binding = nil, nil
	issued := protocol.Row{
		State: storeapi.StateIssued, OnDoubt: storeapi.Refuse, Issued: true, Owner: owner, Created: minute, Updated: minute,
		Expires: minute + 300_000_000,
	}
	asks := running
	asks.Attempt, asks.Asks, asks.EarlierCut = 19, true, true
	asks.Earlier = []storeapi.Worked{{Attempt: 1, Fence: 1_774_745_000_000_000}, {Attempt: 17, Fence: 1_774_745_900_000_000}}
	since := asks
	since.DoubtBegan, since.Earlier, since.EarlierCut = minute-90_000_000, asks.Earlier[:1], false
	return map[string]protocol.Row{
		"running": running, "full": full, "completed": done, "completed-empty": empty, "completed-nil": none, "completed-large": large,
		"completed-hijacked": hijacked, "failed": failed, "in-doubt": doubt, "released": released, "issued": issued, "asks": asks, "asks-since": since,
	}
}

// names are the names of rows in the order of the golden file.
var names = []string{
	"running", "full", "completed", "completed-empty", "completed-nil", "completed-large", "completed-hijacked", "failed", "in-doubt",
	"released", "issued", "asks", "asks-since",
}

func TestPackedGolden(t *testing.T) {
	t.Parallel()
	all := rows()
	assert.Equal(t, len(names), len(all), "rows in the golden file")
	var file strings.Builder
	for _, name := range names {
		r := all[name]
		packed, err := r.AppendBinary(nil)
		assert.NoError(t, err, "AppendBinary, %s", name)
		fmt.Fprintf(&file, "%s %s\n", name, hex.EncodeToString(packed))
	}
	assert.Golden(t, golden, file.String())
	want, err := os.ReadFile(golden)
	assert.NoError(t, err, "read the golden file")
	for line := range strings.Lines(string(want)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		packed, err := hex.DecodeString(text)
		assert.NoError(t, err, "hex of %s", name)
		got, err := protocol.ParseRow(packed)
		assert.NoError(t, err, "ParseRow, %s", name)
		assert.Equal(t, got, all[name], "row %s from the golden file", name)
	}
}

func TestPackedAppends(t *testing.T) {
	t.Parallel()
	r := rows()["full"]
	alone, err := r.AppendBinary(nil)
	assert.NoError(t, err, "AppendBinary")
	after, err := r.AppendBinary([]byte("before"))
	assert.NoError(t, err, "AppendBinary to a prefix")
	assert.Equal(t, string(after), "before"+string(alone), "packed form after a prefix")
}

// TestParsedRowKeepsToItself: the fields of a row share memory, and appending to one does not
// change the next.
func TestParsedRowKeepsToItself(t *testing.T) {
	t.Parallel()
	for name, want := range rows() {
		packed, err := want.AppendBinary(nil)
		assert.NoError(t, err, "AppendBinary, %s", name)
		got, err := protocol.ParseRow(packed)
		assert.NoError(t, err, "ParseRow, %s", name)
		for _, field := range [][]byte{got.Fingerprint, got.Binding, got.Answer.Body} {
			_ = append(field, "something else"...)
		}
		assert.Equal(t, got, want, "row %s", name)
	}
}

func TestPackedTooLong(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*protocol.Row){
		"fingerprint": func(r *protocol.Row) { r.Fingerprint = make([]byte, 256) },
		"binding":     func(r *protocol.Row) { r.Binding = make([]byte, 256) },
		"cause":       func(r *protocol.Row) { r.Cause = strings.Repeat("c", 256) },
		"codec":       func(r *protocol.Row) { r.Answer.Codec = strings.Repeat("c", 256) },
		"last error":  func(r *protocol.Row) { r.LastError = strings.Repeat("e", 1<<16) },
	} {
		r := rows()["full"]
		spoil(&r)
		_, err := r.AppendBinary(nil)
		assert.True(t, err != nil, "a %s that is too long is an error, never cut", name)
	}
}

func TestParseRowRefuses(t *testing.T) {
	t.Parallel()
	pack := func(name string) []byte {
		r := rows()[name]
		packed, err := r.AppendBinary(nil)
		assert.NoError(t, err, "AppendBinary")
		return packed
	}
	for name, packed := range map[string][]byte{
		"nothing":              nil,
		"another version":      edit(pack("full"), 0, 2),
		"no state":             edit(pack("full"), 1, 0),
		"an unknown state":     edit(pack("full"), 1, 6),
		"an unknown flag":      edit(pack("full"), 2, 0x80|pack("full")[2]),
		"a reserved byte":      edit(pack("full"), 3, 1),
		"nil with bytes":       edit(pack("completed"), 2, 1<<3|pack("completed")[2]),
		"a digest of nothing":  edit(pack("completed-empty"), 2, 1<<6|pack("completed-empty")[2]),
		"a digest of zeros":    append(edit(pack("completed-empty"), 2, 1<<6|pack("completed-empty")[2]), make([]byte, sha256.Size)...),
		"a length that is off": edit(pack("running"), 80, 255),
	} {
		_, err := protocol.ParseRow(packed)
		assert.True(t, err != nil, "ParseRow refuses %s", name)
	}
	// The body is the last field and has no length, so only a cut before it can be detected.
	full := pack("full")
	for n := range full {
		_, err := protocol.ParseRow(full[:n])
		assert.True(t, err != nil, "ParseRow refuses the first %d of %d bytes", n, len(full))
	}
}

func edit(b []byte, at int, c byte) []byte {
	b[at] = c
	return b
}

func FuzzParseRow(f *testing.F) {
	for _, r := range rows() {
		packed, err := r.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		row, err := protocol.ParseRow(packed)
		if err != nil {
			assert.Equal(t, row, protocol.Row{}, "row beside an error")
			return
		}
		again, err := row.AppendBinary(nil)
		assert.NoError(t, err, "AppendBinary of what was parsed")
		assert.True(t, bytes.Equal(again, packed), "each row has one packed form: got %x, want %x", again, packed)
		// A store's data is shown and decided on; none of that may panic.
		key := storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "o", ID: "i"}}
		_ = row.Record(key, minute)
		_, _, _, _ = protocol.Acquire(row, minute, 0, &storeapi.AcquireRequest{Key: key})
		_, _, _ = protocol.Release(row, minute, &storeapi.ReleaseRequest{Key: key, Owner: row.Owner, Fence: row.Fence})
	})
}
