package mqidem_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

func TestFromBody(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ pointer, body, want, err string }{
		{"/id", `{"id":"o-1"}`, "o-1", ""},
		{"/order/id", ` {"a":[{}],"order":{"x":null,"id":7}} `, "7", ""},
		{"/a~1b/~0c/1", `{"a/b":{"~c":["x","y"]}}`, "y", ""},
		{"/", `{"":"empty name"}`, "empty name", ""},
		{"/id", `{"Id":"o-1"}`, "", ""},
		{"/id", `{"id":null}`, "", ""},
		{"/id/x", `{"id":"o-1"}`, "", ""},
		{"/0", `["a"]`, "a", ""},
		{"/00", `["a"]`, "", ""},
		{"/1", `["a"]`, "", ""},
		{"/id", `{"id":"a","id":"b"}`, "", "twice"},
		{"/o/id", `{"o":{"id":1},"o":{"id":2}}`, "", "twice"},
		{"/id", `{"id":1.0}`, "", "whole number"},
		{"/id", `{"id":9007199254740992}`, "", "whole number"},
		{"/id", `{"id":true}`, "", "whole number"},
		{"/id", `{"id":{}}`, "", "whole number"},
		{"/id", `{"id":"a"} {}`, "", "not JSON"},
		{"/id", `{"id":`, "", "not JSON"},
		{"/id", ``, "", "not JSON"},
		{"/id", "\x1f\x8b\x08secret", "", "not JSON"},
	} {
		got, err := mqidem.FromBody(one.pointer)(&mqidem.Message{Body: []byte(one.body)})
		assert.Equal(t, got, one.want, "id at %s of %s", one.pointer, one.body)
		if one.err == "" {
			assert.NoError(t, err, "%s of %s", one.pointer, one.body)
		} else {
			assert.Contains(t, err.Error(), one.err, "error of %s in %s", one.pointer, one.body)
		}
	}
}

func FuzzFromBody(f *testing.F) {
	f.Add("/order/id", []byte(`{"order":{"id":"1"}}`))
	f.Add("/0/a~1", []byte(`[{"a/":12}]`))
	f.Fuzz(func(t *testing.T, pointer string, body []byte) {
		if pointer == "" || pointer[0] != '/' {
			return
		}
		id, err := mqidem.FromBody(pointer)(&mqidem.Message{Body: body})
		if id != "" && (err != nil || !json.Valid(body)) {
			t.Fatalf("id %q with error %v of %q", id, err, body)
		}
	})
}

func FuzzParseReason(f *testing.F) {
	full := mqidem.Reason{Why: mqidem.DeadTries, Error: "ö𝄞\x00\n", Tries: 3, Consumer: "stock", Key: "app/mq//stock/1", Source: "q", At: time.Unix(1, 5).UTC(), Redrives: 1}
	packed, err := full.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add([]byte(`{"why":"tries","at":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := mqidem.ParseReason(b)
		if err != nil {
			return
		}
		packed, err := r.Pack()
		if err != nil {
			return // too large, or a year that JSON cannot represent
		}
		for _, c := range packed {
			if c < ' ' || c > '~' {
				t.Fatalf("byte %q in %q", c, packed)
			}
		}
		again, err := mqidem.ParseReason(packed)
		if err != nil {
			t.Fatalf("%q was packed as %q: %v", b, packed, err)
		}
		if len(r.Error) <= 1024 && !again.At.Equal(r.At) {
			t.Fatalf("%+v became %+v", r, again)
		}
		again.At, r.At = time.Time{}, time.Time{}
		if len(r.Error) <= 1024 && again != r {
			t.Fatalf("%+v became %+v", r, again)
		}
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	assert.Equal(t, mqidem.Fixed(3*time.Second)(5), 3*time.Second, "fixed")
	wait := mqidem.Exponential(time.Second, time.Minute)
	for try, most := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 7: time.Minute, 1000: time.Minute} {
		for range 50 {
			d := wait(try)
			assert.True(t, d >= most/2 && d <= most, "try %d waits %v, at most %v", try, d, most)
		}
	}
	assert.Equal(t, mqidem.Exponential(0, time.Minute)(3), time.Duration(0), "no wait")
}
