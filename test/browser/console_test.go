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
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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

// runHook runs the hook, which may answer instead of the console.
func (o *office) runHook(w http.ResponseWriter, r *http.Request) bool {
	hook := o.hook.Load()
	return hook != nil && (*hook)(w, r)
}

// setHook sets the hook.
func (o *office) setHook(hook func(http.ResponseWriter, *http.Request) bool) { o.hook.Store(&hook) }

// writeDocument answers with a document.
func writeDocument(w http.ResponseWriter, status int, document string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, document)
	return true
}

var consoleSecret = []byte("0123456789abcdef0123456789abcdef")

// allowAnybody lets callers on this machine view without a token.
func allowAnybody(o *admin.Options) { o.Tokens = nil }

// openOffice opens a console; each change is made to its options.
func openOffice(t *testing.T, changes ...func(*admin.Options)) *office {
	t.Helper()
	store := memstore.New(nil)
	o := &office{store: store, locks: heldLocks(t)}
	o.engine = retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: consoleSecret, Sweep: -1}).Layer("gw")
	for i, cause := range []string{"timeout", "reset", "truncated", "panic", "error", "steps-changed", "timeout", "an-own-cause-with-a-long-name"} {
		o.putInDoubt(t, fmt.Sprintf("doubt-%d", i), cause)
	}
	for i := range 130 {
		o.completeKey(t, fmt.Sprintf("done-%d", i))
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
		DeadLetters: map[string]*admin.DeadLetters{"orders": admin.NewDeadLetters(deadQueue{}, records, consoleSecret)},
	}
	for _, change := range changes {
		change(&options)
	}
	handler, err := admin.New(records, &options)
	assert.NoError(t, err, "console")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch away := o.away.Load(); {
		case o.runHook(w, r):
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

// doubtKey is the key of a record that putInDoubt makes.
func doubtKey(id string) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: "shop", Layer: "gw", Key: storeapi.Key{Tenant: "user-7", Operation: "POST /payments", ID: id}}
}

// putInDoubt makes a record in doubt.
func (o *office) putInDoubt(t *testing.T, id, cause string) {
	t.Helper()
	req := storeapi.AcquireRequest{Key: doubtKey(id), Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour}
	got, err := o.store.Acquire(t.Context(), req)
	assert.NoError(t, err, "acquire")
	err = o.store.Release(t.Context(), storeapi.ReleaseRequest{
		Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, InDoubt: true, Cause: cause, LastError: "the bank did not answer", Retention: time.Hour,
	})
	assert.NoError(t, err, "release")
}

func (o *office) completeKey(t *testing.T, id string) {
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
		if why == mqidem.DeadInDoubt {
			key, err := doubtKey("doubt-0").MarshalText()
			if err != nil {
				return err
			}
			l.Reason.Key = string(key)
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
	b.runActions("open", chromedp.Navigate(url))
	return b
}

// openView goes to a view, and waits until it has loaded.
func (b *tab) openView(hash string) {
	b.t.Helper()
	evalScript[bool](b, `(location.hash = "`+hash+`", true)`)
	b.awaitLoaded()
}

func (b *tab) awaitLoaded() {
	b.t.Helper()
	b.awaitScript(`document.querySelector("main h1") && !document.querySelector("[aria-busy]") && document.querySelector("nav [aria-current]") !== undefined`, "true")
}

func (b *tab) pressKeys(keys string) {
	b.t.Helper()
	b.runActions("type "+keys, chromedp.KeyEvent(keys))
}

// takeShot keeps a picture of the page, if CONSOLE_SHOTS names a directory: to look at it.
func (b *tab) takeShot(name string) {
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
	b.openView("#/search?list=1&state=completed")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	done := evalScript[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
	b.openView("#/doubts")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	doubt := evalScript[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
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
				b.awaitLoaded()
				b.runActions("axe", chromedp.Evaluate[chromedp.Void](axe+";0"))
				views := o.consoleViews(b)
				for _, width := range []int64{1280, 390} {
					b.runActions("size", chromedp.EmulateViewport(width, 844))
					for name, hash := range views {
						b.openView(hash)
						b.isForEverybody(fmt.Sprintf("%s-%s-%d-%s", name, language, width, scheme))
					}
					for _, key := range []string{"?", "token"} {
						if key == "?" {
							b.pressKeys(key)
						} else {
							if width < 760 {
								b.runActions("open the menu", chromedp.Focus("header .menu"), chromedp.KeyEvent("\r"))
								b.isForEverybody(fmt.Sprintf("menu-%s-%d-%s", language, width, scheme))
							}
							b.runActions("open the dialog", chromedp.Focus("button.who"), chromedp.KeyEvent("\r"))
						}
						b.awaitScript(`document.querySelector("dialog").open`, "true")
						b.isForEverybody(fmt.Sprintf("dialog-%s-%s-%d-%s", strings.Trim(key, "?"), language, width, scheme))
						b.runActions("close", chromedp.KeyEvent("\x1b"))
						b.awaitScript(`document.querySelector("dialog").open`, "false")
						if key != "?" {
							b.awaitScript(`document.activeElement.className`, "who")
						}
					}
				}
				assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
			})
		}
	}
}

func (b *tab) isForEverybody(name string) {
	b.t.Helper()
	b.checkWidth(name)
	found := evalScript[string](b, `axe.run(document, { iframes: false, resultTypes: ["violations"] }).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)).join("\n"))`)
	assert.Equal(b.t, found, "", "%s: axe", name)
}

// checkWidth checks that the page is no wider than its window.
func (b *tab) checkWidth(name string) {
	b.t.Helper()
	b.takeShot(name)
	wide := evalScript[string](b, `[...document.querySelectorAll("body *")].filter((e) => !e.closest(".skip, dialog:not([open])") &&
		e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40)).join("\n")`)
	assert.Equal(b.t, wide, "", "%s: wider than the window", name)
	assert.True(b.t, evalScript[bool](b, "document.documentElement.scrollWidth <= innerWidth"), "%s: no scrolling sideways", name)
}

// TestConsoleByKeyboard: a doubt is found, opened and resolved with a reason, and the audit log
// read, without a mouse.
func TestConsoleByKeyboard(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url, "en")
	b.awaitLoaded()
	b.awaitScript(`document.activeElement.name`, "token")
	b.pressKeys("rsadmin_rita\r")
	b.awaitText(".who", "rita: view, reveal, resolve")
	b.awaitLoaded()
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	// j, k and Enter: the second row
	b.pressKeys("jjjk")
	b.awaitScript(`[...document.querySelectorAll("[data-row]")].indexOf(document.activeElement)`, "1")
	b.pressKeys("\r")
	b.awaitText("main h1", "in doubt")
	fence := evalScript[string](b, `document.querySelector("#resolve code").textContent`)
	b.pressKeys("e")
	b.awaitScript(`document.activeElement.value`, "answer")
	b.pressKeys(" \t")
	b.awaitScript(`document.activeElement.name`, "status")
	b.pressKeys("\t\t/payments/7\t{\"id\":7}\tfound it at the bank\t\r")
	b.awaitText(".notice", "Resolved")
	assert.NotEqual(t, fence, "", "the fence that the form shows")
	assert.Contains(t, evalScript[string](b, `document.querySelector("main h1").textContent`), "completed", "the state after it")
	assert.True(t, evalScript[bool](b, `!document.querySelector("#resolve")`), "a completed record has no form")
	// back with Esc, and to the audit log with g a
	b.pressKeys("\x1b")
	b.awaitScript("location.hash", "#/doubts")
	b.awaitLoaded()
	b.pressKeys("ga")
	b.awaitText("main .reason", "found it at the bank")
	b.pressKeys("/")
	b.awaitScript(`document.activeElement.type`, "search")
	// the driver types the character although the page has taken the key
	evalScript[bool](b, `(document.activeElement.value = "", true)`)
	b.pressKeys("0123456789abcdef\r")
	b.awaitScript("location.hash", "hash=0123456789abcdef")
	b.awaitText(".found", "None of the")
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleTells what is not allowed, and what changed under the reader's eyes.
func TestConsoleTells(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_vera", "en")
	b.awaitText(".who", "vera: view")
	assert.Equal(t, evalScript[string](b, "location.hash"), "#/doubts", "the token is not left in the address")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	record := evalScript[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
	b.openView(record)
	b.awaitText("#resolve", "it needs the role resolve")
	assert.Equal(t, evalScript[int](b, `document.querySelectorAll("main form").length`), 0, "forms for one who may only view")

	b.openView("#token=rsadmin_rita")
	b.awaitText(".who", "rita")
	b.openView(record)
	b.awaitScript(`!!document.querySelector("#resolve form")`, "true")
	status := evalScript[int](b, `fetch("api/v1" + "`+strings.Replace(record, "#/record", "/records", 1)+`", { headers: { Authorization: "Bearer rsadmin_rita" } }).then((r) => r.json()).then((r) => fetch("api/v1/records/" + r.ref + "/resolve", {
		method: "POST", headers: { "Content-Type": "application/json", Authorization: "Bearer rsadmin_rita" },
		body: JSON.stringify({ fence: r.fence, outcome: "done", reason: "by another" }) })).then((r) => r.status)`)
	assert.Equal(t, status, 200, "another resolves it meanwhile")
	evalScript[bool](b, `(document.querySelector("[value=not-done]").click(), document.querySelector("[name=reason]").value = "nothing at the bank", document.querySelector("#resolve form").requestSubmit(), true)`)
	b.awaitText("#resolve .problem", "Nothing was done")
	b.awaitText("#resolve .problem", "in doubt → completed")
	b.takeShot("changed")

	b.openView("#token=wrong")
	b.awaitText(".problem", "does not know who you are")
	b.awaitScript(`document.querySelector("dialog").open`, "true")
	assert.True(t, !bytes.Contains([]byte(evalScript[string](b, "location.href")), []byte("token")), "the token is not in the address")
}

// TestConsoleWhileAway: the page says that the server or its store is away, keeps what it has
// shown, and goes on by itself when they are back.
func TestConsoleWhileAway(t *testing.T) {
	t.Parallel()
	o := openOffice(t, allowAnybody)
	b := openConsole(t, o.url, "en")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	assert.Contains(t, evalScript[string](b, `document.querySelector(".who").textContent`), "this machine: view", "without tokens")
	for away, want := range map[string]string{"offline": "The server does not answer", "store": "The store does not answer"} {
		o.away.Store(&away)
		b.pressKeys("r")
		b.awaitText("main .problem", want)
		b.awaitText("main .problem", "What is shown below is from")
		assert.True(t, evalScript[bool](b, `!!document.querySelector("[data-row]")`), "%s: what was shown is still there", away)
		o.away.Store(nil)
		b.awaitScript(`document.querySelector(".problem") === null && !!document.querySelector("[data-row]")`, "true")
	}
}
