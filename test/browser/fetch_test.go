package browsertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestWhichAnswersEndAKey tests the table of docs/browser.md: how often a request is sent if it
// always gets this answer, and whether the next press has the same key.
func TestWhichAnswersEndAKey(t *testing.T) { //nolint:tparallel // the subtests share a page
	t.Parallel()
	const tries = 4
	l := openLab(t)
	b := l.openPage(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		sent   int
		kept   bool
	}{
		"200":                      {answerStatus(200), 1, false},
		"201":                      {answerStatus(201), 1, false},
		"204":                      {answerStatus(204), 1, false},
		"304":                      {answerStatus(304), 1, false},
		"400":                      {answerStatus(400), 1, false},
		"400 time-refused":         {answerProblem("time-refused"), 1, true},
		"400 body-incomplete":      {answerProblem("body-incomplete"), 1, true},
		"401":                      {answerStatus(401), 1, true},
		"403":                      {answerStatus(403), 1, true},
		"404":                      {answerStatus(404), 1, false},
		"408":                      {answerStatus(408), tries, true},
		"409":                      {answerStatus(409), 1, false},
		"409 that is replayed":     {answerStatus(409, "Idempotency-Replayed", "true", "Retry-After", "0"), 1, false},
		"409 that Stripe replays":  {answerStatus(409, "Idempotent-Replayed", "true"), 1, false},
		"409 and Retry-After":      {answerStatus(409, "Retry-After", "0"), tries, true},
		"409 in-progress":          {answerProblem("in-progress"), tries, true},
		"409 attempt-failed":       {answerProblem("attempt-failed"), tries, true},
		"409 lease-lost":           {answerProblem("lease-lost"), tries, true},
		"409 already-done":         {answerProblem("already-done"), 1, false},
		"409 error_code 202":       {answerRejected, 1, false},
		"409 answer-not-kept":      {answerProblem("answer-not-kept"), 1, false},
		"409 resolved-failed":      {answerProblem("resolved-failed"), 1, false},
		"409 outcome-unknown":      {answerProblem("outcome-unknown"), 1, true},
		"409 principal-changed":    {answerProblem("principal-changed"), 1, true},
		"413":                      {answerProblem("body-too-large"), 1, false},
		"423":                      {answerStatus(423), 1, false},
		"426":                      {answerStatus(426), 1, true},
		"428":                      {answerStatus(428), 1, true},
		"431":                      {answerStatus(431), 1, true},
		"422":                      {answerStatus(422), 1, false},
		"422 payload-mismatch":     {answerProblem("payload-mismatch"), 1, false},
		"425":                      {answerStatus(425), tries, true},
		"429":                      {answerProblem("too-many-keys"), tries, true},
		"500":                      {answerStatus(500), 1, true},
		"502":                      {answerStatus(502), tries, true},
		"503":                      {answerProblem("store-unavailable"), tries, true},
		"504":                      {answerStatus(504), tries, true},
		"504 outcome-unknown":      {answerUnknown(504), 1, true},
		"503 that is no JSON":      {answerStatus(503, "Content-Type", "application/json"), tries, true},
		"303 to what is not there": {answerRedirect, 1, true},
		"no answer":                {cutConnection, tries, true},
		"half an answer":           {answerHalf, tries, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.forSubtest(t)
			l.setAnswers(c.answer)
			got := evalScript[string](b, fetchCall(name, "/do", "", ""))
			assert.Equal(t, strings.HasPrefix(got, "Error: retrysafe: no answer came"), name == "no answer" || name == "half an answer", "%s", got)
			key := l.sameKey(t, c.sent)
			assert.Equal(t, evalScript[bool](b, fmt.Sprintf("rs.pending(%q)", name)), c.kept, "pending")
			l.setAnswers(answerStatus(200))
			assert.Equal(t, evalScript[string](b, fetchCall(name, "/do", "", "")), "200 status 200", "the next press")
			assert.Equal(t, l.sameKey(t, 1) == key, c.kept, "the next press has the same key")
			assert.True(t, !evalScript[bool](b, fmt.Sprintf("rs.pending(%q)", name)), "nothing is pending after 200")
		})
	}
}

func answerRejected(w http.ResponseWriter, r *http.Request) {
	p := httpidem.NewProblem("in-progress", nil)
	p.ErrorCode = 202
	p.ServeHTTP(w, r)
}

func answerUnknown(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		httpidem.NewProblem("outcome-unknown", nil).WithStatus(code).ServeHTTP(w, r)
	}
}

// answerRedirect leads to a page that answers 404.
func answerRedirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/none", http.StatusSeeOther)
}

// TestFetch tests everything else that fetchOnce does.
func TestFetch(t *testing.T) { //nolint:tparallel // the subtests share a page
	t.Parallel()
	l := openLab(t)
	b := l.openPage(t)
	ok := answerStatus(200)
	for name, check := range map[string]func(b *tab){
		"a lost answer is replayed": func(b *tab) {
			service := guardService(b.t, nil, func(w http.ResponseWriter, _ *http.Request, n int) { fmt.Fprint(w, "order ", n) })
			l.setAnswers(loseAnswer(service), cutConnection, service)
			assert.Equal(b.t, evalScript[string](b, fetchCall("lost", "/do", "", "")), "200 order 1", "answer")
			l.sameKey(b.t, 3)
		},
		"all answers lost, then pressed again": func(b *tab) {
			service := guardService(b.t, nil, func(w http.ResponseWriter, _ *http.Request, n int) { fmt.Fprint(w, "order ", n) })
			l.setAnswers(loseAnswer(service), cutConnection)
			assert.Contains(b.t, evalScript[string](b, fetchCall("all lost", "/do", "", "{ max: 2 }")), "it may have been done", "answer")
			l.setAnswers(service)
			assert.Equal(b.t, evalScript[string](b, fetchCall("all lost", "/do", "", "")), "200 order 1", "the next press")
		},
		"in progress, then replayed": func(b *tab) {
			gate := make(chan struct{})
			begun := make(chan struct{})
			service := guardService(b.t, nil, func(w http.ResponseWriter, _ *http.Request, n int) {
				close(begun)
				<-gate
				fmt.Fprint(w, "order ", n)
			})
			l.setAnswers(service, func(w http.ResponseWriter, r *http.Request) {
				// gets in-progress, with a Retry-After of a second
				<-begun
				service(w, r)
				close(gate)
			}, service)
			got := evalScript[string](b, `Promise.all([`+fetchCall("one", "/do", "", "{ key: 'order-8e03978e40d543e8bc93' }")+`, `+
				fetchCall("two", "/do", "", "{ key: 'order-8e03978e40d543e8bc93' }")+`]).then(String)`)
			assert.Equal(b.t, got, "200 order 1,200 order 1", "both answers")
			l.sameKey(b.t, 3)
		},
		"a conflict after a lost answer may be word of it": func(b *tab) {
			l.setAnswers(cutConnection, answerStatus(409))
			assert.Equal(b.t, evalScript[string](b, fetchCall("conflict", "/do", "", "")), "409 status 409", "answer")
			assert.True(b.t, evalScript[bool](b, `rs.pending("conflict")`), "pending")
			key := l.sameKey(b.t, 2)
			l.setAnswers(answerStatus(409))
			evalScript[string](b, fetchCall("conflict", "/do", "", ""))
			assert.Equal(b.t, l.sameKey(b.t, 1), key, "the next press")
			l.setAnswers(answerStatus(409, "Idempotency-Replayed", "true"))
			evalScript[string](b, fetchCall("conflict", "/do", "", ""))
			assert.Equal(b.t, l.sameKey(b.t, 1), key, "the press after it")
			assert.True(b.t, !evalScript[bool](b, `rs.pending("conflict")`), "pending after a replay")
		},
		"rejected repeats end the key": func(b *tab) {
			reject := func(o *httpidem.Options) { o.Policy.Duplicate = retrysafe.Reject }
			service := guardService(b.t, reject, func(w http.ResponseWriter, _ *http.Request, n int) { fmt.Fprint(w, "order ", n) })
			l.setAnswers(loseAnswer(service), service)
			assert.Contains(b.t, evalScript[string](b, fetchCall("rejected", "/do", "", "")), `"error_code":202`, "answer")
			assert.True(b.t, !evalScript[bool](b, `rs.pending("rejected")`), "pending")
		},
		"two calls at once are one": func(b *tab) {
			l.setAnswers(ok)
			c := fetchCall("twice", "/do", "", "")
			assert.Equal(b.t, evalScript[string](b, `Promise.all([`+c+`, `+c+`, `+c+`]).then(String)`), "200 status 200,200 status 200,200 status 200", "answers")
			l.sameKey(b.t, 1)
		},
		"a call after a fast answer is the same while it holds": func(b *tab) {
			l.setAnswers(ok)
			c := fetchCall("held", "/do", "", "{ hold: 60000 }")
			assert.Equal(b.t, evalScript[string](b, c+`.then(() => `+c+`)`), "200 status 200", "answer")
			l.sameKey(b.t, 1)
			evalScript[bool](b, `rs.forget("held"), true`)
			evalScript[string](b, c)
			assert.Equal(b.t, len(l.requestsSince()), 2, "requests after forget")
		},
		"other contents are other actions, and the first one comes back": func(b *tab) {
			l.setAnswers(cutConnection)
			send := func(init string) string {
				evalScript[string](b, fetchCall("contents", "/do", init, "{ max: 1 }"))
				all := l.requestsSince()
				return all[len(all)-1].key
			}
			first := send(`{ body: "10" }`)
			seen := map[string]bool{first: true}
			for _, init := range []string{`{ body: "20" }`, `{ body: "10", method: "PUT" }`, `{ body: new Blob(["10", "0"]) }`} {
				key := send(init)
				assert.True(b.t, !seen[key], "%s has a key of its own", init)
				seen[key] = true
			}
			assert.Equal(b.t, send(`{ body: "10" }`), first, "the first again")
			evalScript[string](b, fetchCall("contents", "/do?x", `{ body: "10" }`, "{ max: 1 }"))
			all := l.requestsSince()
			assert.True(b.t, !seen[all[len(all)-1].key], "another address has a key of its own")
		},
		"users do not share keys": func(b *tab) {
			l.setAnswers(cutConnection)
			as := func(scope string) string { return fetchCall("shared", "/do", "", "{ max: 1, scope: "+scope+" }") }
			send := func(scope string) string {
				evalScript[string](b, as(scope))
				all := l.requestsSince()
				return all[len(all)-1].key
			}
			a, other := send(`"a"`), send(`"b"`)
			assert.NotEqual(b.t, a, other, "the same action of two users")
			assert.NotEqual(b.t, send("undefined"), a, "of a user and of nobody")
			assert.NotEqual(b.t, send(`"a:"`), a, "of users whose names begin alike")
			assert.Equal(b.t, send(`"a"`), a, "again of the first")
			assert.Equal(b.t, evalScript[string](b, `["a", "b", "c"].map((who) => rs.pending("shared", who)).join()`), "true,true,false", "pending")
			evalScript[bool](b, `rs.forget("shared", "b"), true`)
			assert.Equal(b.t, evalScript[string](b, `["a", "b"].map((who) => rs.pending("shared", who)).join()`), "true,false", "pending after forget")
			n := len(l.requestsSince())
			evalScript[string](b, `Promise.all([`+as(`"c"`)+`, `+as(`"d"`)+`]).then(String)`)
			assert.Equal(b.t, len(l.requestsSince()), n+2, "calls of two users at once are two requests")
		},
		"a logout": func(b *tab) {
			l.setAnswers(cutConnection)
			send := func() string {
				evalScript[string](b, fetchCall("logout", "/do", "", "{ max: 1 }"))
				all := l.requestsSince()
				return all[len(all)-1].key
			}
			first := send()
			evalScript[bool](b, `sessionStorage.setItem("other", "1"), rs.forgetAll(), true`)
			assert.True(b.t, !evalScript[bool](b, `rs.pending("logout")`), "pending")
			assert.Equal(b.t, evalScript[string](b, `sessionStorage.getItem("other")`), "1", "what the application keeps")
			second := send()
			assert.NotEqual(b.t, second, first, "the key of the next user")
			assert.True(b.t, evalScript[bool](b, `(() => { rs.forgetAll(); rs.fetchOnce("late", "/do", {}, { max: 1 }).catch(() => {}); rs.forgetAll(); return true })()`), "a logout in the midst of a press")
			evalScript[string](b, fetchCall("logout", "/do", "", "{ max: 1 }"))
			assert.True(b.t, !evalScript[bool](b, `rs.pending("late")`), "what was pressed before the logout is not kept behind it")
		},
		"a form with a file is the same although its boundary is not": func(b *tab) {
			l.setAnswers(cutConnection)
			form := `{ body: (() => { const f = new FormData(); f.append("item", "tea"); f.append("f", new File(["abc"], "a.txt")); return f })() }`
			evalScript[string](b, fetchCall("form", "/do", form, "{ max: 2 }"))
			evalScript[string](b, fetchCall("form", "/do", form, "{ max: 1 }"))
			evalScript[string](b, fetchCall("form", "/do", strings.Replace(form, "abc", "abd", 1), "{ max: 1 }"))
			all := l.requestsSince()
			assert.Equal(b.t, len(all), 4, "requests")
			assert.Equal(b.t, all[0], all[1], "two tries of one press")
			assert.Equal(b.t, all[0].key, all[2].key, "the next press")
			assert.NotEqual(b.t, all[2].key, all[3].key, "another file")
			assert.Contains(b.t, all[0].contentType, "multipart/form-data; boundary=", "type")
		},
		"no body, another method, another header": func(b *tab) {
			l.setAnswers(cutConnection, ok)
			assert.Equal(b.t, evalScript[string](b, fetchCall("bare", "/do", "{}", "")), "200 status 200", "answer")
			l.sameKey(b.t, 2)
			l.setAnswers(ok)
			evalScript[string](b, fetchCall("header", "/do", "", `{ header: "X-Key", key: "x" }`))
			assert.Equal(b.t, l.requestsSince()[0].key, "", "the usual header")
		},
		"keys of the application": func(b *tab) {
			l.setAnswers(cutConnection, ok)
			evalScript[string](b, fetchCall("own", "/do", "", "{ key: 'order 17 \\\"x' }"))
			assert.Equal(b.t, l.requestsSince()[1].key, `"order 17 \"x"`, "a key that has to be quoted")
			assert.True(b.t, !evalScript[bool](b, `rs.pending("own")`), "it is not stored")
			l.setAnswers(ok)
			for _, key := range []string{`""`, `"ü"`, `"x".repeat(256)`, `"a\nb"`} {
				assert.Contains(b.t, evalScript[string](b, fetchCall("own", "/do", "", "{ key: "+key+" }")), "TypeError: retrysafe: a key has", "key %s", key)
			}
			assert.Equal(b.t, len(l.requestsSince()), 0, "requests with keys that are none")
		},
		"Retry-After": func(b *tab) {
			const look = `((o) => ` + "`" + `${o.n} ${o.offline} ${o.res?.status} ${o.wait >= 1999 && o.wait < 3100}` + "`" + `)`
			for _, after := range []string{"2", "Thu, 01 Jan 2026 00:00:02 GMT"} {
				l.setAnswers(answerStatus(503, "Retry-After", after, "Date", "Thu, 01 Jan 2026 00:00:00 GMT"))
				got := evalScript[string](b, `new Promise((say) => { const stop = new AbortController();
					rs.fetchOnce("after", "/do", { signal: stop.signal }, { minWait: 1000, onRetry: (o) => { say(`+look+`(o)); stop.abort() } }).catch(() => {}) })`)
				assert.Equal(b.t, got, "1 false 503 true", "Retry-After %s", after)
				assert.Equal(b.t, len(l.requestsSince()), 1, "requests")
			}
			l.setAnswers(answerStatus(503, "Retry-After", "3600"))
			assert.Equal(b.t, evalScript[string](b, fetchCall("long", "/do", "", "")), "503 status 503", "longer than all tries may take")
			l.sameKey(b.t, 1)
		},
		"ended by its caller": func(b *tab) {
			l.setAnswers(ok)
			got := evalScript[string](b, fetchCall("ended", "/do", "{ signal: AbortSignal.abort() }", ""))
			assert.Contains(b.t, got, "AbortError", "answer")
			assert.Equal(b.t, len(l.requestsSince()), 0, "requests")
		},
		"ended by its time": func(b *tab) {
			service := guardService(b.t, nil, func(w http.ResponseWriter, _ *http.Request, n int) { fmt.Fprint(w, "order ", n) })
			l.setAnswers(func(w http.ResponseWriter, r *http.Request) {
				// it acts, and answers too late
				lost := loseAnswer(service)
				<-r.Context().Done()
				lost(w, r)
			}, service)
			assert.Contains(b.t, evalScript[string](b, fetchCall("slow", "/do", "", "{ total: 300 }")), "no answer came", "answer")
			assert.True(b.t, evalScript[bool](b, `rs.pending("slow")`), "pending")
		},
		"nothing may be stored": func(b *tab) {
			l.setAnswers(cutConnection)
			evalScript[bool](b, `window.storage = Object.getOwnPropertyDescriptor(window, "sessionStorage"), Object.defineProperty(window, "sessionStorage", { configurable: true, get() { throw new DOMException("no", "SecurityError") } }), true`)
			defer evalScript[bool](b, `Object.defineProperty(window, "sessionStorage", window.storage), true`)
			evalScript[string](b, fetchCall("memory", "/do", "", "{ max: 1 }"))
			assert.True(b.t, evalScript[bool](b, `rs.pending("memory")`), "pending")
			evalScript[string](b, fetchCall("memory", "/do", "", "{ max: 1 }"))
			l.sameKey(b.t, 2)
			evalScript[bool](b, `rs.forget("memory"), true`)
			assert.True(b.t, !evalScript[bool](b, `rs.pending("memory")`), "pending after forget")
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(b.forSubtest(t))
		})
	}
}
