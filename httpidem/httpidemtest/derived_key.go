package httpidemtest

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const (
	jsonBody = "application/json"
	formBody = "application/x-www-form-urlencoded"
)

// keylessCall returns a request without a key.
func keylessCall(credential, contentType, body string, more ...string) call {
	header := []string{"Content-Type", contentType}
	if credential != "" {
		header = append(header, "Authorization", credential)
	}
	return call{body: body, header: append(header, more...)}
}

// testParams tests keys that are derived from all parameters.
func testParams(t *testing.T, open Open) {
	guard := httpidem.Options{Key: httpidem.Params, Request: httpidem.RequestOptions{Rule: fingerprint.Rule{Ignore: slices.Concat(fingerprint.TimeFields(), fingerprint.PositionFields())}}}
	const order = `{"item":"tea","n":2,"timestamp":1,"lat":52.5}`
	t.Run("a double click", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard, Policy: retrysafe.Policy{Wait: 2 * time.Minute}}, nil)
		var replies [20]reply
		var all sync.WaitGroup
		for i := range replies {
			all.Go(func() { replies[i] = wd.send(keylessCall(ann, jsonBody, order)) })
		}
		all.Wait()
		wd.checkStarts(1, "for 20 copies at once")
		fresh := slices.IndexFunc(replies[:], func(r reply) bool { return !r.isReplay() })
		for i, r := range replies {
			assert.Equal(t, r.body, replies[fresh].body, "answer %d", i)
			assert.Equal(t, r.isReplay(), i != fresh, "answer %d is replayed", i)
		}
	})
	t.Run("what counts", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		first := wd.send(keylessCall(ann, jsonBody, order))
		for _, c := range []call{
			keylessCall(ann, jsonBody, `{ "n":2.0, "item":"t\u0065a", "timestamp":99, "lat":-1 }`),
			keylessCall(ann, jsonBody+"; charset=utf-8", `{"item":"tea","n":2}`),
			{path: "/orders?ts=5", header: []string{"Content-Type", jsonBody, "Authorization", ann}, body: order},
		} {
			wd.checkReplay(first, wd.send(c))
		}
		wd.checkStarts(1, "for four spellings")
		for i, c := range []call{
			keylessCall(ann, jsonBody, `{"item":"tea","n":3}`),
			keylessCall(ann, jsonBody, `{"item":"Tea","n":2}`),
			keylessCall(ann, formBody, `item=tea&n=2`),
			keylessCall(bob, jsonBody, order),
			{path: "/orders?n=2", header: []string{"Content-Type", jsonBody, "Authorization", ann}, body: order},
			{path: "/others", header: []string{"Content-Type", jsonBody, "Authorization", ann}, body: order},
			{method: "PATCH", header: []string{"Content-Type", jsonBody, "Authorization", ann}, body: order},
		} {
			assert.Equal(t, wd.send(c).isReplay(), false, "request %d is another one", i)
			wd.checkStarts(int64(2+i), "after another request")
		}
	})
	t.Run("a key counts", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		first := wd.send(keylessCall(ann, jsonBody, order, "Idempotency-Key", "one"))
		wd.checkReplay(first, wd.send(keylessCall(ann, jsonBody, order, "Idempotency-Key", "one")))
		wd.send(keylessCall(ann, jsonBody, order, "Idempotency-Key", "two"))
		wd.send(keylessCall(ann, jsonBody, order))
		wd.checkStarts(3, "for two keys and none")
	})
	t.Run("for seconds", func(t *testing.T) {
		t.Parallel()
		clock := new(settableClock)
		s := Setup{Store: memstore.New(&memstore.Options{Now: clock.now}), Guard: guard, Policy: retrysafe.Policy{Retention: 24 * time.Hour}}
		wd := newWorld(t, open, s, nil)
		wd.send(keylessCall(ann, jsonBody, order))
		clock.advance(httpidem.DefaultWindow - time.Second)
		assert.True(t, wd.send(keylessCall(ann, jsonBody, order)).isReplay(), "within the window")
		clock.advance(2 * time.Second)
		assert.True(t, !wd.send(keylessCall(ann, jsonBody, order)).isReplay(), "behind the window a second order is one")
		wd.checkStarts(2, "in all")
	})
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		wd.checkProblem(wd.send(keylessCall("", jsonBody, order)), 403, "tenant-missing", false)
		wd.checkStarts(0, "for somebody who is not known")
	})
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		for _, body := range []string{`{"n":1,"n":2}`, `{"n":`, "{\"n\":\"\xff\"}", `{"n":1} {}`} {
			r := wd.send(keylessCall(ann, jsonBody, body))
			wd.checkProblem(r, 400, "key-not-made", false)
		}
		wd.checkProblem(wd.send(call{path: "/orders?a=%zz", header: []string{"Authorization", ann}}), 400, "key-not-made", false)
		wd.checkStarts(0, "for what can be read in two ways")
		assert.Equal(t, wd.send(keylessCall(ann, "text/plain", "anything")).status, 201, "text")
		assert.Equal(t, wd.send(call{header: []string{"Authorization", ann}}).status, 201, "an empty body")
		assert.True(t, wd.send(call{header: []string{"Authorization", ann}}).isReplay(), "its repeat")
	})
	t.Run("those behind", func(t *testing.T) {
		t.Parallel()
		clock := new(settableClock)
		var mu sync.Mutex
		var keys []string
		wd := newWorld(t, open, Setup{Store: memstore.New(&memstore.Options{Now: clock.now}), Guard: guard}, func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			keys = append(keys, r.Header.Get("Idempotency-Key"))
		})
		wd.send(keylessCall(ann, jsonBody, `{"a":1}`))
		wd.send(keylessCall(ann, jsonBody, `{"a":2}`))
		// another caller,
		wd.send(keylessCall(bob, jsonBody, `{"a":1}`))
		// another path,
		wd.send(call{path: "/others", body: `{"a":1}`, header: []string{"Content-Type", jsonBody, "Authorization", ann}})
		clock.advance(time.Minute)
		wd.send(keylessCall(ann, jsonBody, `{"a":1}`)) // and a second order of the same thing
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, len(keys), 5, "requests behind")
		for _, k := range keys {
			_, err := httpidem.ParseKey([]string{k})
			assert.NoError(t, err, "the key that they see")
		}
		slices.Sort(keys)
		assert.Equal(t, len(slices.Compact(keys)), 5, "keys that they see")
	})
	t.Run("only what is named", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{Key: httpidem.Params, Request: httpidem.RequestOptions{Rule: fingerprint.Rule{Only: []string{"$.id"}}}}}, nil)
		wd.checkReplay(wd.send(keylessCall(ann, jsonBody, `{"id":7,"x":1}`)), wd.send(keylessCall(ann, jsonBody, `{"id":7,"x":2}`)))
		wd.checkProblem(wd.send(keylessCall(ann, jsonBody, `{"x":2}`)), 400, "key-not-made", false)
		wd.checkStarts(1, "for one id")
	})
}

// testFields tests keys that are derived from named fields, whatever key a request sends.
func testFields(t *testing.T, open Open) {
	vote := func(*http.Request) string { return "vote" }
	guard := httpidem.Options{
		Key:     httpidem.Fields,
		Request: httpidem.RequestOptions{Fields: []string{"poll"}, Rule: fingerprint.Rule{Ignore: fingerprint.TimeFields()}, Operation: vote},
		Policy:  retrysafe.Policy{Retention: retrysafe.Forever},
	}
	t.Run("one vote", func(t *testing.T) {
		t.Parallel()
		clock := new(settableClock)
		wd := newWorld(t, open, Setup{Store: memstore.New(&memstore.Options{Now: clock.now}), Guard: guard, Policy: guard.Policy}, nil)
		first := wd.send(keylessCall(ann, jsonBody, `{"poll":"7","for":"tea"}`))
		wd.checkReplay(first, wd.send(keylessCall(ann, jsonBody, `{"for":"tea","poll":"7","ts":3}`)))
		clock.advance(1000 * time.Hour)
		for i, more := range [][]string{nil, {"Idempotency-Key", "new"}, {"Idempotency-Key", "newer"}, {"Idempotency-Key", ""}} {
			wd.checkReplay(first, wd.send(keylessCall(ann, jsonBody, `{"poll":"7","for":"tea"}`, more...)))
			r := wd.send(keylessCall(ann, jsonBody, `{"poll":"7","for":"coffee"}`, more...))
			assert.Equal(t, r.problemCode(), "payload-mismatch", "another vote, try %d", i)
		}
		wd.checkStarts(1, "for one voter and poll")
		wd.send(keylessCall(ann, jsonBody, `{"poll":"8","for":"tea"}`))
		wd.send(keylessCall(bob, jsonBody, `{"poll":"7","for":"tea"}`))
		wd.checkStarts(3, "for another poll, and another voter")
	})
	t.Run("attacks", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		assert.Equal(t, wd.send(keylessCall(ann, jsonBody, `{"poll":7,"for":"tea"}`)).status, 201, "the vote")
		for name, c := range map[string]call{
			"as a text":          keylessCall(ann, jsonBody, `{"poll":"7","for":"coffee"}`),
			"as a form":          keylessCall(ann, formBody, `poll=7&for=coffee`),
			"with an escape":     keylessCall(ann, jsonBody, `{"p\u006fll":7,"for":"coffee"}`),
			"on another path":    {path: "/%6frders", body: `{"poll":7}`, header: []string{"Content-Type", jsonBody, "Authorization", ann}},
			"with a field more":  keylessCall(ann, jsonBody, `{"poll":7,"for":"tea","x":"y"}`),
			"with another media": keylessCall(ann, "application/vnd.vote+json", `{"poll":7,"for":"coffee"}`),
		} {
			r := wd.send(c)
			assert.Equal(t, r.problemCode(), "payload-mismatch", "%s: code", name)
		}
		for name, c := range map[string]call{
			"twice":               keylessCall(ann, jsonBody, `{"poll":8,"poll":7}`),
			"in another case":     keylessCall(ann, jsonBody, `{"poll":8,"Poll":7}`),
			"in capitals":         keylessCall(ann, jsonBody, `{"poll":8,"POLL":7}`),
			"twice in a form":     keylessCall(ann, formBody, `poll=8&poll=7`),
			"cased in a form":     keylessCall(ann, formBody, `poll=8&POLL=7`),
			"escaped in a form":   keylessCall(ann, formBody, `p%6fll=8&poll=7`),
			"another spelling":    keylessCall(ann, jsonBody, `{"poll":7.0}`),
			"an exponent":         keylessCall(ann, jsonBody, `{"poll":70e-1}`),
			"minus nothing":       keylessCall(ann, jsonBody, `{"poll":-0}`),
			"a list":              keylessCall(ann, jsonBody, `{"poll":[7]}`),
			"a boolean":           keylessCall(ann, jsonBody, `{"poll":true}`),
			"null":                keylessCall(ann, jsonBody, `{"poll":null}`),
			"empty":               keylessCall(ann, jsonBody, `{"poll":""}`),
			"missing":             keylessCall(ann, jsonBody, `{"for":"tea"}`),
			"no object":           keylessCall(ann, jsonBody, `["poll",7]`),
			"beside a query":      {path: "/orders?poll=8", body: `{"poll":7}`, header: []string{"Content-Type", jsonBody, "Authorization", ann}},
			"a form and a query":  {path: "/orders?poll=7", body: "poll=8", header: []string{"Content-Type", formBody, "Authorization", ann}},
			"a query in capitals": {path: "/orders?POLL=7", body: "poll=8", header: []string{"Content-Type", formBody, "Authorization", ann}},
			"a compressed form":   keylessCall(ann, formBody, "\x1f\x8b\x08\x10\x00&poll=8&", "Content-Encoding", "gzip"),
			"a space before":      keylessCall(ann, formBody, "poll=8&+poll=7"),
			"a zero behind":       keylessCall(ann, formBody, "poll=8&poll%00x=7"),
			"a bracket behind":    keylessCall(ann, formBody, "poll=8&poll[]=7"),
			"a semicolon":         keylessCall(ann, formBody, "poll=8;poll=7"),
			"a part named twice":  keylessCall(ann, "multipart/form-data; boundary=b", multipartOf(`poll"; name*="utf-8''other`, "8", "poll", "7")),
			"a part escaped":      keylessCall(ann, "multipart/form-data; boundary=b", multipartOf(`po\ll`, "7", "poll", "8")),
			"a part without one":  keylessCall(ann, "multipart/form-data; boundary=b", strings.Replace(multipartOf("poll", "7", "poll", "8"), "form-data; name=\"poll\"", "form-data", 1)),
			"two kinds":           keylessCall(ann, jsonBody, `{"poll":8}`, "Content-Type", formBody),
			"another charset":     keylessCall(ann, formBody+"; charset=utf-7", "poll=8"),
			"a number too large":  keylessCall(ann, jsonBody, `{"poll":9007199254740993}`),
			"in the query only":   {path: "/orders?poll=8", header: []string{"Authorization", ann}},
			"another kind":        keylessCall(ann, "text/plain", `{"poll":8}`),
			"no kind":             keylessCall(ann, "", `{"poll":8}`),
			"compressed":          keylessCall(ann, jsonBody, "\x1f\x8b\x08\x00", "Content-Encoding", "gzip"),
			"half a surrogate":    keylessCall(ann, jsonBody, `{"poll":"\ud800"}`),
			"a file":              keylessCall(ann, "multipart/form-data; boundary=b", multipartOf("poll\"; filename=\"x", "8")),
			"parts twice":         keylessCall(ann, "multipart/form-data; boundary=b", multipartOf("poll", "8", "poll", "7")),
			"a part that ends":    keylessCall(ann, "multipart/form-data; boundary=b", strings.TrimSuffix(multipartOf("poll", "8"), "--b--\r\n")),
			"a part in disguise":  keylessCall(ann, "multipart/form-data; boundary=b", strings.Replace(multipartOf("poll", "8"), "\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1)),
		} {
			r := wd.send(c)
			assert.Equal(t, r.problemCode(), "key-not-made", "%s: code", name)
			assert.Equal(t, r.status, 400, "%s: status", name)
		}
		wd.checkStarts(1, "whatever was tried")
		wd.checkProblem(wd.send(keylessCall("", jsonBody, `{"poll":7}`)), 403, "tenant-missing", false)
	})
	t.Run("several fields", func(t *testing.T) {
		t.Parallel()
		guard := guard
		guard.Request.Fields = []string{"$.a.b", "query:c", "header:X-D", "/e~1f"}
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		one := func(body, query, head string) call {
			return call{path: "/orders?" + query, body: body, header: []string{"Content-Type", jsonBody, "Authorization", ann, "X-D", head}}
		}
		const body = `{"a":{"b":1},"e/f":"x"}`
		first := wd.send(one(body, "c=1", "d"))
		wd.checkReplay(first, wd.send(one(`{"e/f":"x","a":{"b":1}}`, "c=1", "d")))
		for i, c := range []call{one(`{"a":{"b":2},"e/f":"x"}`, "c=1", "d"), one(body, "c=2", "d"), one(body, "c=1", "e"), one(`{"a":{"b":1},"e/f":"y"}`, "c=1", "d")} {
			assert.Equal(t, wd.send(c).status, 201, "other fields, %d", i)
			wd.checkStarts(int64(2+i), "in all")
		}
		named := one(body, "c=1", "d")
		named.header = append(named.header, "Connection", "close, x-d")
		beside := one(body, "c=1", "d")
		beside.header = append(beside.header, "X_D", "e")
		wd.checkProblem(wd.send(beside), 400, "key-not-made", false)
		if !wd.http2 {
			wd.checkProblem(wd.send(named), 400, "key-not-made", false)
		}
		for i, c := range []call{one(`{"a":{},"e/f":"x"}`, "c=1", "d"), one(body, "", "d"), one(body, "c=1&c=1", "d"), one(body, "c=1", ""), one(body, "c=1&C=1", "d")} {
			assert.Equal(t, wd.send(c).problemCode(), "key-not-made", "without a field, %d", i)
		}
	})
}

// multipartOf returns a body with the boundary b.
func multipartOf(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString("--b\r\nContent-Disposition: form-data; name=\"" + pairs[i] + "\"\r\n\r\n" + pairs[i+1] + "\r\n")
	}
	return b.String() + "--b--\r\n"
}
