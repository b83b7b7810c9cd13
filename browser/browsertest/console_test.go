package browsertest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/storeapi"
)

// axe is the program that looks for what people with a screen reader, a keyboard or weak eyes
// cannot use.
var axe = func() string {
	f, err := os.Open(filepath.Join("testdata", "axe-4.14.1.min.js.gz"))
	if err != nil {
		panic(err) // it belongs to this package
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return string(text)
}()

// office is a console with something in every view.
type office struct {
	store  storeapi.Store
	engine *retrysafe.Engine
	locks  lock.Lister
	url    string
	away   atomic.Pointer[string] // the kind of failure: offline, or of the store; nil: none
	hook   atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

// instead runs the hook, which may answer instead of the console.
func (o *office) instead(w http.ResponseWriter, r *http.Request) bool {
	hook := o.hook.Load()
	return hook != nil && (*hook)(w, r)
}

// on sets the hook.
func (o *office) on(hook func(http.ResponseWriter, *http.Request) bool) { o.hook.Store(&hook) }

// says answers with a document.
func says(w http.ResponseWriter, status int, document string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, document)
	return true
}

var consoleSecret = []byte("0123456789abcdef0123456789abcdef")

// anybody lets callers on this machine view without a token.
func anybody(o *admin.Options) { o.Tokens = nil }

// openOffice opens a console; each change is made to its options.
func openOffice(t *testing.T, changes ...func(*admin.Options)) *office {
	t.Helper()
	store := memstore.New(nil)
	o := &office{store: store, locks: heldLocks(t)}
	o.engine = retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: consoleSecret, Sweep: -1}).Layer("gw")
	for i, cause := range []string{"timeout", "reset", "truncated", "panic", "error", "steps-changed", "timeout", "an-own-cause-with-a-long-name"} {
		o.doubt(t, fmt.Sprintf("doubt-%d", i), cause)
	}
	for i := range 130 {
		o.completed(t, fmt.Sprintf("done-%d", i))
	}
	records, err := admin.NewRecords(store, &admin.RecordsOptions{Secret: consoleSecret})
	assert.NoError(t, err, "records")
	audit := admin.NewAudit(store, "shop", 0)
	for _, e := range []admin.Entry{
		{Who: "alice", Action: "resolve", Object: "0123456789abcdef", Reason: "payment 4711 is in the bank's list", Detail: "done", Result: "begun"},
		{Who: "alice", Action: "resolve", Object: "0123456789abcdef", Reason: "payment 4711 is in the bank's list", Detail: "done", Result: "done", Of: 1},
		{Who: "bob", Action: "discard", Object: "outbox shop", Reason: "<img src=x onerror=alert(1)>", Detail: "2 messages: 10 11", Result: "begun"},
	} {
		_, err := audit.Write(t.Context(), e)
		assert.NoError(t, err, "audit")
	}
	tokens := admin.Tokens{}
	for _, c := range []admin.Caller{{Name: "vera", Roles: admin.View}, {Name: "rita", Roles: admin.View | admin.Reveal | admin.Resolve}} {
		tokens[sha256.Sum256([]byte("rsadmin_"+c.Name))] = c
	}
	options := admin.Options{
		Tokens: tokens, Audit: audit, Namespace: "shop", Console: true, Traffic: flow{}, Locks: map[string]lock.Lister{"shop": o.locks},
		Outboxes:    map[string]admin.Outbox{"shop": deadBox{}},
		DeadLetters: map[string]*admin.DeadLetters{"orders": admin.NewDeadLetters(deadQueue{}, nil, consoleSecret)},
	}
	for _, change := range changes {
		change(&options)
	}
	handler, err := admin.New(records, &options)
	assert.NoError(t, err, "console")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch away := o.away.Load(); {
		case o.instead(w, r):
		case away == nil:
			handler.ServeHTTP(w, r)
		case *away == "offline":
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"status":503,"code":"unavailable","detail":"the store did not answer"}`)
		}
	}))
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

// doubt makes a record in doubt.
func (o *office) doubt(t *testing.T, id, cause string) {
	t.Helper()
	req := storeapi.AcquireRequest{
		Key:   storeapi.StoreKey{Namespace: "shop", Layer: "gw", Key: storeapi.Key{Tenant: "user-7", Operation: "POST /payments", ID: id}},
		Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour,
	}
	got, err := o.store.Acquire(t.Context(), req)
	assert.NoError(t, err, "acquire")
	err = o.store.Release(t.Context(), storeapi.ReleaseRequest{
		Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, InDoubt: true, Cause: cause, LastError: "the bank did not answer", Retention: time.Hour,
	})
	assert.NoError(t, err, "release")
}

func (o *office) completed(t *testing.T, id string) {
	t.Helper()
	a, _, err := o.engine.Begin(t.Context(), retrysafe.Key{Tenant: "user-7", Operation: "POST /orders", ID: id})
	assert.NoError(t, err, "begin")
	answer, err := httpidem.StoredAnswer(201, nil, []byte(`{"order":1}`))
	assert.NoError(t, err, "answer")
	assert.NoError(t, a.Complete(t.Context(), answer), "complete")
}

// flow is the traffic of an hour.
type flow struct{}

func (flow) Routes() []admin.Route {
	return []admin.Route{
		{Name: "POST /payments", Outcomes: map[string]uint64{"executed": 1200, "replayed": 44, "doubt": 3, "in-doubt": 6, "released": 2}},
		{Name: "default", Outcomes: map[string]uint64{"unguarded": 90210}},
	}
}

func (flow) History() (all []admin.Point) {
	now := time.Now()
	for i := range 360 {
		all = append(all, admin.Point{
			At: now.Add(time.Duration(i-360) * 10 * time.Second), Span: 10,
			Outcomes: map[string]uint64{"executed": uint64(20 + i%60), "refused": uint64(i % 7), "doubt": uint64(i % 90 / 85)},
		})
	}
	return all
}

// heldLocks are 130 locks.
func heldLocks(t *testing.T) lock.Lister {
	t.Helper()
	locks := memlock.New()
	for i := range 130 {
		_, err := locks.TryLock(t.Context(), lock.Request{Name: fmt.Sprintf("cart-of-customer-%03d", i), Lease: time.Hour})
		assert.NoError(t, err, "lock")
	}
	return locks
}

type deadBox struct{}

func (deadBox) Stats(context.Context) (outbox.Stats, error) {
	return outbox.Stats{Pending: 12, Waiting: 3, Dead: 2, Oldest: 90 * time.Second}, nil
}

func (deadBox) Dead(context.Context, int64, int) ([]outbox.DeadMessage, error) {
	now := time.Now()
	return []outbox.DeadMessage{
		{Place: 10, ID: "m-1", Topic: "orders.paid", Key: "order-1", Attempts: 12, Added: now, Died: now, Error: "no route"},
		{Place: 11, ID: "m-2", Topic: "orders.paid", Key: "order-2", Attempts: 12, Added: now, Died: now, Error: "no route"},
	}, nil
}

func (deadBox) Redrive(_ context.Context, ids ...string) (int, error) { return len(ids), nil }
func (deadBox) Discard(_ context.Context, ids ...string) (int, error) { return len(ids), nil }

type deadQueue struct{}

func (deadQueue) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	for _, why := range []string{"tries", "poison", "in-doubt"} {
		l := &mqidem.DeadLetter{
			Message: &mqidem.Message{ID: "id-" + why, Source: "orders", Body: []byte(`{"order":1}`)},
			Reason:  mqidem.Reason{Why: why, Consumer: "mailer", Tries: 5, Error: "smtp: 550", At: time.Now()},
		}
		if _, err := see(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (deadQueue) Send(context.Context, *mqidem.Message) error { return nil }

// openConsole opens the console in a language, and collects what the page complains about.
func openConsole(t *testing.T, url, language string) *tab {
	t.Helper()
	b := openTab(t, "about:blank")
	_, err := chromedp.Call(b.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `window.wrong = [];
			for (const name of ["error", "unhandledrejection", "securitypolicyviolation"]) addEventListener(name, (e) => wrong.push(name + " " + (e.message ?? e.reason ?? e.violatedDirective)));
			for (const name of ["error", "warn"]) console[name] = (...all) => wrong.push(all.join(" "));
			if (location.protocol === "http:") localStorage.setItem("retrysafe-language", "` + language + `");`,
	})
	assert.NoError(t, err, "watch the page")
	b.do("open", chromedp.Navigate(url))
	return b
}

// visit goes to a view, and waits until it has loaded.
func (b *tab) visit(hash string) {
	b.t.Helper()
	eval[bool](b, `(location.hash = "`+hash+`", true)`)
	b.loaded()
}

func (b *tab) loaded() {
	b.t.Helper()
	b.until(`document.querySelector("main h1") && !document.querySelector("[aria-busy]") && document.querySelector("nav [aria-current]") !== undefined`, "true")
}

func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do("type "+keys, chromedp.KeyEvent(keys))
}

// shot keeps a picture of the page, if CONSOLE_SHOTS names a directory: to look at it.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("CONSOLE_SHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	assert.NoError(b.t, err, "picture")
	assert.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600), "picture")
}

// consoleViews are addresses of the page, by a name for people.
func (o *office) consoleViews(b *tab) map[string]string {
	b.visit("#/search?list=1&state=completed")
	b.until(`!!document.querySelector("[data-row]")`, "true")
	done := eval[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
	b.visit("#/doubts")
	b.until(`!!document.querySelector("[data-row]")`, "true")
	doubt := eval[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
	return map[string]string{
		"doubts": "#/doubts", "doubts-of-a-cause": "#/doubts?cause=timeout", "search": "#/search",
		"search-list": "#/search?list=1&state=completed", "search-hash": "#/search?hash=0123456789abcdef",
		"record-doubt": doubt, "record-done": done, "traffic": "#/traffic", "messages": "#/messages",
		"locks": "#/locks", "quotas": "#/quotas", "workers": "#/workers", "audit": "#/audit", "not-found": "#/record/AAAA",
	}
}

// TestConsoleIsForEverybody: every view fits, in both languages, in light and dark, and axe has
// nothing to say against it. The page does not complain, and nothing of the data runs.
func TestConsoleIsForEverybody(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"en", "zh"} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(language+", "+scheme, func(t *testing.T) {
				t.Parallel()
				o := openOffice(t)
				b := openConsole(t, o.url+"/#token=rsadmin_rita", language)
				_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
				})
				assert.NoError(t, err, "%s", scheme)
				b.loaded()
				b.do("axe", chromedp.Evaluate[chromedp.Void](axe+";0"))
				views := o.consoleViews(b)
				for _, width := range []int64{1280, 390} {
					b.do("size", chromedp.EmulateViewport(width, 844))
					for name, hash := range views {
						b.visit(hash)
						b.isForEverybody(fmt.Sprintf("%s-%s-%d-%s", name, language, width, scheme))
					}
					for _, key := range []string{"?", "token"} {
						if key == "?" {
							b.keys(key)
						} else {
							b.do("open the dialog", chromedp.Focus("button.who"), chromedp.KeyEvent("\r"))
						}
						b.until(`document.querySelector("dialog").open`, "true")
						b.isForEverybody(fmt.Sprintf("dialog-%s-%s-%d-%s", strings.Trim(key, "?"), language, width, scheme))
						b.do("close", chromedp.KeyEvent("\x1b"))
						b.until(`document.querySelector("dialog").open`, "false")
					}
				}
				assert.Equal(t, eval[string](b, `wrong.join("\n")`), "", "what the page complained about")
			})
		}
	}
}

func (b *tab) isForEverybody(name string) {
	b.t.Helper()
	b.fits(name)
	found := eval[string](b, `axe.run(document, { iframes: false, resultTypes: ["violations"] }).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)).join("\n"))`)
	assert.Equal(b.t, found, "", "%s: axe", name)
}

// fits checks that the page is no wider than its window.
func (b *tab) fits(name string) {
	b.t.Helper()
	b.shot(name)
	wide := eval[string](b, `[...document.querySelectorAll("body *")].filter((e) => !e.closest(".skip, dialog:not([open])") &&
		e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40)).join("\n")`)
	assert.Equal(b.t, wide, "", "%s: wider than the window", name)
	assert.True(b.t, eval[bool](b, "document.documentElement.scrollWidth <= innerWidth"), "%s: no scrolling sideways", name)
}

// TestConsoleByKeyboard: a doubt is found, opened and resolved with a reason, and the audit log
// read, without a mouse.
func TestConsoleByKeyboard(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url, "en")
	b.loaded()
	b.until(`document.activeElement.name`, "token")
	b.keys("rsadmin_rita\r")
	b.shows(".who", "rita: view, reveal, resolve")
	b.loaded()
	b.until(`!!document.querySelector("[data-row]")`, "true")
	// j, k and Enter: the second row
	b.keys("jjjk")
	b.until(`[...document.querySelectorAll("[data-row]")].indexOf(document.activeElement)`, "1")
	b.keys("\r")
	b.shows("main h1", "in doubt")
	fence := eval[string](b, `document.querySelector("#resolve code").textContent`)
	b.keys("e")
	b.until(`document.activeElement.value`, "answer")
	b.keys(" \t")
	b.until(`document.activeElement.name`, "status")
	b.keys("\t\t/payments/7\t{\"id\":7}\tfound it at the bank\t\r")
	b.shows(".notice", "Resolved")
	assert.NotEqual(t, fence, "", "the fence that the form shows")
	assert.Contains(t, eval[string](b, `document.querySelector("main h1").textContent`), "completed", "the state after it")
	assert.True(t, eval[bool](b, `!document.querySelector("#resolve")`), "a completed record has no form")
	// back with Esc, and to the audit log with g a
	b.keys("\x1b")
	b.until("location.hash", "#/doubts")
	b.loaded()
	b.keys("ga")
	b.shows("main .reason", "found it at the bank")
	b.keys("/")
	b.until(`document.activeElement.type`, "search")
	// the driver types the character although the page has taken the key
	eval[bool](b, `(document.activeElement.value = "", true)`)
	b.keys("0123456789abcdef\r")
	b.until("location.hash", "hash=0123456789abcdef")
	b.shows(".found", "None of the")
	assert.Equal(t, eval[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleTells what is not allowed, and what changed under the reader's eyes.
func TestConsoleTells(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_vera", "en")
	b.shows(".who", "vera: view")
	assert.Equal(t, eval[string](b, "location.hash"), "#/doubts", "the token is not left in the address")
	b.until(`!!document.querySelector("[data-row]")`, "true")
	record := eval[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
	b.visit(record)
	b.shows("#resolve", "it needs the role resolve")
	assert.Equal(t, eval[int](b, `document.querySelectorAll("main form").length`), 0, "forms for one who may only view")

	b.visit("#token=rsadmin_rita")
	b.shows(".who", "rita")
	b.visit(record)
	b.until(`!!document.querySelector("#resolve form")`, "true")
	status := eval[int](b, `fetch("api/v1" + "`+strings.Replace(record, "#/record", "/records", 1)+`", { headers: { Authorization: "Bearer rsadmin_rita" } }).then((r) => r.json()).then((r) => fetch("api/v1/records/" + r.ref + "/resolve", {
		method: "POST", headers: { "Content-Type": "application/json", Authorization: "Bearer rsadmin_rita" },
		body: JSON.stringify({ fence: r.fence, outcome: "done", reason: "by another" }) })).then((r) => r.status)`)
	assert.Equal(t, status, 200, "another resolves it meanwhile")
	eval[bool](b, `(document.querySelector("[value=not-done]").click(), document.querySelector("[name=reason]").value = "nothing at the bank", document.querySelector("#resolve form").requestSubmit(), true)`)
	b.shows("#resolve .problem", "Nothing was done")
	b.shows("#resolve .problem", "in doubt → completed")
	b.shot("changed")

	b.visit("#token=wrong")
	b.shows(".problem", "does not know who you are")
	b.until(`document.querySelector("dialog").open`, "true")
	assert.True(t, !bytes.Contains([]byte(eval[string](b, "location.href")), []byte("token")), "the token is not in the address")
}

// TestConsoleWhileAway: the page says that the server or its store is away, keeps what it has
// shown, and goes on by itself when they are back.
func TestConsoleWhileAway(t *testing.T) {
	t.Parallel()
	o := openOffice(t, anybody)
	b := openConsole(t, o.url, "en")
	b.until(`!!document.querySelector("[data-row]")`, "true")
	assert.Contains(t, eval[string](b, `document.querySelector(".who").textContent`), "this machine: view", "without tokens")
	for away, want := range map[string]string{"offline": "The server does not answer", "store": "The store does not answer"} {
		o.away.Store(&away)
		b.keys("r")
		b.shows("main .problem", want)
		b.shows("main .problem", "What is shown below is from")
		assert.True(t, eval[bool](b, `!!document.querySelector("[data-row]")`), "%s: what was shown is still there", away)
		o.away.Store(nil)
		b.until(`document.querySelector(".problem") === null && !!document.querySelector("[data-row]")`, "true")
	}
}
