package httpidemtest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// testRequestAge tests that requests that were made too long ago are refused.
func testRequestAge(t *testing.T, open Open) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	guard := func(field string) httpidem.Options {
		return httpidem.Options{
			Key:     httpidem.Params,
			Request: httpidem.RequestOptions{Rule: fingerprint.Rule{Ignore: fingerprint.TimeFields()}},
			Limit:   httpidem.LimitOptions{Age: &httpidem.Age{Field: field, Max: 5 * time.Second, Now: func() time.Time { return now }}},
		}
	}
	unix := func(d time.Duration, unit time.Duration) string {
		return strconv.FormatInt(now.Add(d).UnixNano()/int64(unit), 10)
	}
	t.Run("in a header", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard("header:X-Sent")}, nil)
		n := 0
		order := func(sent ...string) reply {
			n++
			c := keylessCall(ann, jsonBody, `{"order":`+strconv.Itoa(n)+`}`)
			for _, s := range sent {
				c.header = append(c.header, "X-Sent", s)
			}
			return wd.send(c)
		}
		for _, d := range []time.Duration{-5 * time.Second, 0, 5 * time.Second} {
			for _, text := range []string{
				now.Add(d).Format(time.RFC3339), now.Add(d).In(time.FixedZone("", 3600)).Format(time.RFC3339Nano), now.Add(d).Format(http.TimeFormat),
				unix(d, time.Second), unix(d, time.Millisecond), unix(d, time.Microsecond), unix(d, time.Nanosecond),
			} {
				assert.Equal(t, order(text).status, 201, "%s at %v", text, d)
			}
		}
		wd.checkStarts(21, "in time")
		for _, texts := range [][]string{
			{unix(-6*time.Second, time.Second)},
			{unix(-5001*time.Millisecond, time.Millisecond)},
			{unix(5001*time.Millisecond, time.Millisecond)},
			{unix(time.Hour, time.Second)},
			{now.Add(-time.Minute).Format(http.TimeFormat)},
			{},
			{""},
			{"now"},
			{"1"},
			{"-1772366400"},
			{"17723664000"},
			{unix(0, time.Second), unix(0, time.Second)},
			{"99999999999999999999"},
		} {
			r := order(texts...)
			assert.Equal(t, r.problemCode(), "time-refused", "%q", texts)
			assert.Equal(t, r.status, 400, "%q", texts)
			assert.Equal(t, r.header.Get("Retry-After"), "", "as it is it will never do")
		}
		wd.checkStarts(21, "in all")
	})
	t.Run("in the request", func(t *testing.T) {
		t.Parallel()
		for field, c := range map[string]func(sent string) call{
			"timestamp": func(sent string) call { return keylessCall(ann, jsonBody, `{"timestamp":`+sent+`,"item":1}`) },
			"ts":        func(sent string) call { return keylessCall(ann, formBody, url.Values{"ts": {sent}}.Encode()) },
			"query:ts": func(sent string) call {
				return call{path: "/orders?ts=" + sent, header: []string{"Authorization", ann}}
			},
		} {
			wd := newWorld(t, open, Setup{Guard: guard(field)}, nil)
			first := wd.send(c(unix(-time.Second, time.Millisecond)))
			assert.Equal(t, first.status, 201, "%s: in time", field)
			// a retry with its own time
			wd.checkReplay(first, wd.send(c(unix(0, time.Millisecond))))
			r := wd.send(c(unix(-time.Minute, time.Millisecond)))
			assert.Equal(t, r.problemCode(), "time-refused", "%s: what was done, too", field)
		}
	})
	t.Run("optional", func(t *testing.T) {
		t.Parallel()
		g := guard("header:Date")
		g.Key, g.Request.Rule = httpidem.Optional, fingerprint.Rule{}
		wd := newWorld(t, open, Setup{Guard: g}, nil)
		old := []string{"Authorization", ann, "Date", now.Add(-time.Hour).Format(http.TimeFormat)}
		wd.checkProblem(wd.send(call{header: old}), 400, "time-refused", false)
		wd.checkProblem(wd.send(call{header: append(old, "Idempotency-Key", "k")}), 400, "time-refused", false)
		assert.Equal(t, wd.send(call{method: "GET", header: old}).status, 201, "a GET is not guarded")
		wd.checkStarts(1, "in all")
	})
	t.Run("a key of one's own", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: guard("timestamp")}, nil)
		order := func(sent time.Duration) reply {
			return wd.send(keylessCall(ann, jsonBody, `{"timestamp":`+unix(sent, time.Millisecond)+`,"item":1}`, "Idempotency-Key", "k"))
		}
		wd.checkReplay(order(-time.Second), order(0)) // a retry with its own time
		wd.checkStarts(1, "in all")
	})
	t.Run("with a key", func(t *testing.T) {
		t.Parallel()
		g := guard("header:Date")
		g.Key, g.Request.Rule = httpidem.Required, fingerprint.Rule{}
		wd := newWorld(t, open, Setup{Guard: g, Policy: retrysafe.Policy{}}, nil)
		assert.Equal(t, wd.send(keyedCall("k", "x", "Date", now.Format(http.TimeFormat))).status, 201, "in time")
		wd.checkProblem(wd.send(keyedCall("k", "x", "Date", now.Add(-time.Hour).Format(http.TimeFormat))), 400, "time-refused", false)
		wd.checkProblem(wd.send(keyedCall("l", "x", "Date", now.Add(-time.Hour).Format(http.TimeFormat))), 400, "time-refused", false)
		wd.checkStarts(1, "in all")
	})
}

// testFormKey tests a key in a field of a form.
func testFormKey(t *testing.T, open Open) {
	form := func(key string) call {
		return keylessCall(ann, formBody, url.Values{"item": {"tea"}, httpidem.TokenField: {key}}.Encode())
	}
	t.Run("in the field", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{KeySource: httpidem.KeySource{Form: true}}}, nil)
		first := wd.send(form("a"))
		wd.checkReplay(first, wd.send(form("a")))
		wd.checkProblem(wd.send(keylessCall(ann, formBody, "item=coffee&idempotency_key=a")), 422, "payload-mismatch", false)
		wd.checkStarts(1, "for one key")
		wd.send(form("b"))
		part := keylessCall(ann, "multipart/form-data; boundary=b", multipartOf("idempotency_key", "c", "item", "tea"))
		wd.checkReplay(wd.send(part), wd.send(part))
		wd.checkStarts(3, "for three keys")
		for range 2 {
			wd.send(keylessCall(ann, formBody, "item=tea"))
			wd.send(keylessCall(ann, jsonBody, `{"idempotency_key":"a"}`))
		}
		wd.checkStarts(7, "without a key, twice as a form and twice as JSON")
		over := form("a")
		over.header = append(over.header, "Idempotency-Key", "h")
		assert.True(t, !wd.send(over).isReplay(), "a header counts first")
		for _, body := range []string{"idempotency_key=a&idempotency_key=b", "idempotency_key=", "idempotency_key=%C3%A9", "idempotency_key=%zz", "idempotency_key=" + string(make([]byte, 256))} {
			wd.checkProblem(wd.send(keylessCall(ann, formBody, body)), 400, "key-malformed", false)
		}
		for _, body := range []string{
			strings.TrimSuffix(multipartOf("idempotency_key", "z"), "--b--\r\n"), strings.Replace(multipartOf("idempotency_key", "z"), "form-data; ", "form-data", 1),
		} {
			wd.checkProblem(wd.send(keylessCall(ann, "multipart/form-data; boundary=b", body)), 400, "key-malformed", false)
		}
		wd.checkProblem(wd.send(keylessCall("", formBody, "idempotency_key=a")), 400, "key-too-short", false)
		wd.checkStarts(8, "in all")
	})
	t.Run("required", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{Key: httpidem.Required, KeySource: httpidem.KeySource{Form: true}}}, nil)
		wd.checkReplay(wd.send(form("a")), wd.send(form("a")))
		wd.checkProblem(wd.send(keylessCall(ann, formBody, "item=tea")), 400, "key-missing", false)
		wd.checkProblem(wd.send(keylessCall(ann, jsonBody, `{"idempotency_key":"a"}`)), 400, "key-missing", false)
		wd.checkStarts(1, "for the key in the field")
	})
	t.Run("not unless asked", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		wd.send(form("a"))
		wd.send(form("a"))
		wd.checkStarts(2, "where forms have no key")
	})
}
