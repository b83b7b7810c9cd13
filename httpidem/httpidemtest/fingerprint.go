package httpidemtest

import (
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// mediaCall returns a request with a key and a body of a media type.
func mediaCall(key, media, body string) call { return keyedCall(key, body, "Content-Type", media) }

// testFingerprint tests which requests with one key are duplicates under FingerprintJSON.
func testFingerprint(t *testing.T, open Open) {
	const order = `{"item":"tea","n":2,"note":null,"to":{"city":"Zürich","zip":"8001"},"sentAt":1}`
	byMeaning := httpidem.Options{Request: httpidem.RequestOptions{Fingerprint: httpidem.FingerprintJSON}}
	t.Run("the same meaning", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: byMeaning}, nil)
		first := wd.send(mediaCall("k", jsonBody, order))
		for _, again := range []string{
			order,
			`{"sentAt":1, "to":{"zip":"8001","city":"Z\u00fcrich"}, "note":null, "n":2.0, "item":"tea"}`,
			"{\n  \"item\": \"t\\u0065a\",\n  \"n\": 2e0, \"note\": null, \"to\": {\"city\": \"Zürich\", \"zip\": \"8001\"}, \"sentAt\": 1\n}\n",
		} {
			wd.checkReplay(first, wd.send(mediaCall("k", jsonBody, again)))
			wd.checkReplay(first, wd.send(mediaCall("k", "Application/JSON; charset=utf-8", again)))
		}
		wd.checkStarts(1, "for seven spellings")
	})
	t.Run("another meaning", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: byMeaning}, nil)
		wd.send(mediaCall("k", jsonBody, order))
		defer wd.checkStarts(1, "for one order and others with its key")
		for name, c := range map[string]call{
			"a number":            mediaCall("k", jsonBody, `{"item":"tea","n":3,"note":null,"to":{"city":"Zürich","zip":"8001"},"sentAt":1}`),
			"a text for a number": mediaCall("k", jsonBody, `{"item":"tea","n":"2","note":null,"to":{"city":"Zürich","zip":"8001"},"sentAt":1}`),
			"absent for null":     mediaCall("k", jsonBody, `{"item":"tea","n":2,"to":{"city":"Zürich","zip":"8001"},"sentAt":1}`),
			"a member more":       mediaCall("k", jsonBody, `{"item":"tea","n":2,"note":null,"to":{"city":"Zürich","zip":"8001"},"sentAt":1,"x":0}`),
			"a member twice":      mediaCall("k", jsonBody, `{"item":"tea","n":2,"note":null,"to":{"city":"Zürich","zip":"8001"},"sentAt":1,"n":2}`),
			"another case":        mediaCall("k", jsonBody, `{"item":"tea","n":2,"note":null,"to":{"city":"Zürich","zip":"8001"},"sentAt":1,"N":9}`),
			"two media types":     {body: order, header: withKey("k", "Content-Type", jsonBody, "Content-Type", "text/plain")},
			"a coding":            {body: order, header: withKey("k", "Content-Type", jsonBody, "Content-Encoding", "x-own")},
			"another charset":     mediaCall("k", jsonBody+"; charset=utf-7", order),
			"cut off":             mediaCall("k", jsonBody, order[:len(order)-1]),
			"text after it":       mediaCall("k", jsonBody, order+"x"),
			"empty":               mediaCall("k", jsonBody, ""),
			"another media type":  mediaCall("k", "text/plain", order),
			"another +json":       mediaCall("k", "application/vnd.order+json", order),
			"a query":             {path: "/orders?n=2", body: order, header: withKey("k", "Content-Type", jsonBody)},
		} {
			r := wd.send(c)
			if r.problemCode() != "payload-mismatch" {
				t.Errorf("%s: status %d, code %q, body %s", name, r.status, r.problemCode(), r.body)
			}
			wd.checkProblem(r, http.StatusUnprocessableEntity, "payload-mismatch", false)
		}
	})
	t.Run("names that differ in case", func(t *testing.T) {
		t.Parallel()
		guard := byMeaning
		guard.Request.Rule = fingerprint.Rule{Only: []string{"$.amount"}}
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		// Programs take either amount.
		wd.send(mediaCall("k", jsonBody, `{"amount":1000,"AMOUNT":1}`))
		wd.checkProblem(wd.send(mediaCall("k", jsonBody, `{"AMOUNT":1,"amount":1000}`)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		wd.send(mediaCall("j", jsonBody, `{"amount":1}`))
		wd.checkProblem(wd.send(mediaCall("j", jsonBody, `{"amount":1,"AMOUNT":1000}`)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		wd.checkStarts(2, "for two keys")
	})
	t.Run("not JSON", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: byMeaning}, nil)
		for i, media := range []string{"text/plain", formBody, jsonBody} {
			key := string(rune('a' + i))
			first := wd.send(mediaCall(key, media, "n=2&n=2"))
			wd.checkReplay(first, wd.send(mediaCall(key, media, "n=2&n=2")))
			wd.checkProblem(wd.send(mediaCall(key, media, "n=2& n=2")), http.StatusUnprocessableEntity, "payload-mismatch", false)
			wd.checkProblem(wd.send(mediaCall(key, media, "n=%32&n=2")), http.StatusUnprocessableEntity, "payload-mismatch", false)
		}
		wd.checkStarts(3, "for three bodies that are compared byte for byte")
	})
	t.Run("ignored members", func(t *testing.T) {
		t.Parallel()
		guard := byMeaning
		guard.Request.Rule = fingerprint.Rule{Ignore: []string{"$.sentAt"}}
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		first := wd.send(mediaCall("k", jsonBody, `{"n":2,"sentAt":1}`))
		wd.checkReplay(first, wd.send(mediaCall("k", jsonBody, `{"sentAt":99,"n":2}`)))
		wd.checkReplay(first, wd.send(mediaCall("k", jsonBody, `{"n":2}`)))
		wd.checkProblem(wd.send(mediaCall("k", jsonBody, `{"n":3,"sentAt":1}`)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		wd.checkProblem(wd.send(mediaCall("k", jsonBody, `{"n":2,"in":{"sentAt":1}}`)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		wd.checkStarts(1, "for what differs in an ignored member")
	})
	t.Run("ignored names", func(t *testing.T) {
		t.Parallel()
		guard := byMeaning
		guard.Request.Rule = fingerprint.Rule{Ignore: []string{"_t"}}
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		ask := func(key, media, query, body string) call {
			return call{path: "/orders?" + query, body: body, header: withKey(key, "Content-Type", media)}
		}
		for i, kind := range []struct{ media, body, again, other string }{
			{jsonBody, `{"n":2,"_t":1}`, `{"_t":[2],"n":2}`, `{"n":3,"_t":1}`},
			{formBody, "_t=1&n=2", "n=2&%5ft=2&_t", "n=3&_t=1"},
			{"text/plain", "_t=1", "_t=1", "_t=2"},
		} {
			key := string(rune('a' + i))
			first := wd.send(ask(key, kind.media, "_t=1&a=b", kind.body))
			for _, query := range []string{"_t=2&a=b", "a=b", "a=b&_t=3&_t=4"} {
				wd.checkReplay(first, wd.send(ask(key, kind.media, query, kind.again)))
			}
			for _, query := range []string{"_t=1&a=c", "_t=1", "_t=1&a=%62", "_t=1&a=b&", "_t=1;a=b&a=b", "t=1&a=b"} {
				wd.checkProblem(wd.send(ask(key, kind.media, query, kind.body)), http.StatusUnprocessableEntity, "payload-mismatch", false)
			}
			wd.checkProblem(wd.send(ask(key, kind.media, "_t=1&a=b", kind.other)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		}
		wd.checkStarts(3, "for what differs in a name that is ignored")
	})
	t.Run("counted members", func(t *testing.T) {
		t.Parallel()
		guard := byMeaning
		guard.Request.Rule = fingerprint.Rule{Only: []string{"$.order"}}
		wd := newWorld(t, open, Setup{Guard: guard}, nil)
		first := wd.send(mediaCall("k", jsonBody, `{"order":{"n":2},"try":1}`))
		wd.checkReplay(first, wd.send(mediaCall("k", jsonBody, `{"try":2,"order":{"n":2}}`)))
		wd.checkProblem(wd.send(mediaCall("k", jsonBody, `{"order":{"n":3},"try":1}`)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		wd.checkProblem(wd.send(mediaCall("k", jsonBody, `{"try":1}`)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		wd.checkStarts(1, "for what differs in other members")
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		first := wd.send(mediaCall("k", jsonBody, `{"n":2}`))
		wd.checkReplay(first, wd.send(mediaCall("k", jsonBody, `{"n":2}`)))
		wd.checkProblem(wd.send(mediaCall("k", jsonBody, `{"n": 2}`)), http.StatusUnprocessableEntity, "payload-mismatch", false)
		wd.checkStarts(1, "by default bodies are compared byte for byte")
	})
}
