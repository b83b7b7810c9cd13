package browsertest_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// awaitCount waits until so many elements are there.
func (b *tab) awaitCount(selector, want string) {
	b.t.Helper()
	b.awaitScript(`"n" + document.querySelectorAll("`+selector+`").length + "."`, "n"+want+".")
}

// focusOn presses Tab until an element has the focus.
func (b *tab) focusOn(selector string) {
	b.t.Helper()
	for range 400 {
		if evalScript[bool](b, `document.activeElement.matches("`+selector+`")`) {
			return
		}
		b.pressKeys("\t")
	}
	b.takeShot("no-" + strings.Trim(selector, ".#[]"))
	b.t.Fatalf("Tab does not come to %s; it is at %s", selector, evalScript[string](b, `document.activeElement.outerHTML.slice(0, 300)`))
}

// TestConsoleLocks: who holds what, without names, page by page; with a reason the names are shown
// once. All by keyboard.
func TestConsoleLocks(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitLoaded()
	b.pressKeys("gl")
	b.awaitCount("main .rows > li", "100")
	b.awaitText("main .rows > li", "59 minutes left")
	b.awaitText("main .rows > li", "clients that wait: 0")
	b.awaitText("main .rows > li", "held since")
	b.awaitText("main", "Shown: 100. There are more.")
	assert.True(t, !evalScript[bool](b, `document.body.textContent.includes("cart-of")`), "names are hidden")
	b.pressKeys("jj")
	b.awaitScript(`[...document.querySelectorAll("[data-row]")].indexOf(document.activeElement)`, "1")
	b.focusOn("main rs-backend > button")
	b.pressKeys("\r")
	b.awaitCount("main .rows > li", "130")
	b.awaitText("main", "Locks held: 130.")
	b.focusOn("main summary")
	b.pressKeys("\r\twho holds the carts\t\r")
	b.awaitText("main .rows", "cart-of-customer-129")
	b.takeShot("locks-revealed")
	all := evalScript[string](b, `location.href + " " + performance.getEntries().map((e) => e.name).join(" ")`)
	assert.True(t, strings.Contains(all, "/locks/shop/reveal") && !strings.Contains(all, "carts") && !strings.Contains(all, "reason"), "the reason stands in no address: %s", all)
	b.pressKeys("r")
	b.awaitScript(`document.body.textContent.includes("cart-of")`, "false")
	b.openView("#/audit")
	b.awaitText("main .reason", "who holds the carts")

	b.openView("#token=rsadmin_vera")
	b.openView("#/locks")
	b.awaitText("main", "it needs the role reveal")
	assert.Equal(t, evalScript[int](b, `document.querySelectorAll("main form").length`), 0, "forms for one who may only view")
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")

	none := openConsole(t, openOffice(t, allowAnybody, func(o *admin.Options) { o.Locks = nil }).url, "en")
	none.awaitLoaded()
	assert.True(t, !evalScript[bool](none, `document.querySelector("nav").textContent.includes("Locks")`), "a server without locks has no view of them")
	none.pressKeys("gl")
	none.awaitText("main", "was not given the locks")
}

// TestConsoleAuditOfOthers: the log shows the entries of commands, with what they did, and says why
// an entry cannot be read.
func TestConsoleAuditOfOthers(t *testing.T) {
	t.Parallel()
	text, err := sealstore.NewKeyFile("a")
	assert.NoError(t, err, "key file")
	ring, err := sealstore.ParseRing(text)
	assert.NoError(t, err, "ring")
	store := memstore.New(nil)
	sealed := sealstore.New(store, ring, &sealstore.Options{OnlySealed: true})
	_, err = admin.NewAudit(store, "shop", 0).Write(t.Context(), admin.Entry{Who: "mallory", Action: "resolve", Object: "x"})
	assert.NoError(t, err, "an entry without sealing")
	e := admin.Entry{Who: "night", Action: "redrive", Object: "dead letters orders", Detail: "all"}
	begun, err := admin.NewAudit(sealed, "shop", 0).Begin(t.Context(), e)
	assert.NoError(t, err, "begin")
	assert.NoError(t, begun.End(t.Context(), "3 done, 0 gone, 1 left", nil), "end")
	for language, want := range map[string][]string{
		"en": {"all → 3 done, 0 gone, 1 left", "No reason was given.", "This entry was written without sealing."},
		"zh": {"all → 3 done, 0 gone, 1 left", "没有填写理由。", "这个条目写入时没有加密"},
	} {
		o := openOffice(t, func(o *admin.Options) { o.Audit = admin.NewAudit(sealed, "shop", 0) })
		b := openConsole(t, o.url+"/#token=rsadmin_vera", language)
		b.awaitLoaded()
		b.openView("#/audit")
		for _, text := range want {
			b.awaitText("main", text)
		}
		b.takeShot("audit-of-others-" + language)
		assert.True(t, !evalScript[bool](b, `document.body.textContent.includes("mallory")`), "what was not sealed is not shown")
		assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
	}
}

// TestConsoleQuotas: what a tenant uses is found by its whole name, which stands in no address.
func TestConsoleQuotas(t *testing.T) {
	t.Parallel()
	o := openOffice(t, allowAnybody)
	limiter := o.store.(storeapi.Limiter) //nolint:errcheck,forcetypeassert // memstore counts
	got, err := limiter.Charge(t.Context(), storeapi.ChargeRequest{
		Namespace: "shop", Tenant: "alice@example", Keys: 1234, Bytes: 5678, For: time.Hour, Limits: storeapi.Limits{PerSecond: 0.00025, Burst: 5000},
	})
	assert.True(t, err == nil && got.OK, "charge: %+v %v", got, err)
	b := openConsole(t, o.url, "en")
	b.awaitLoaded()
	b.pressKeys("gq")
	b.awaitText("main h1", "Quotas")
	b.focusOn("[name=tenant]")
	b.pressKeys("alice@example\r")
	b.awaitText("main .said", "1,234")
	b.awaitText("main .said", "5,678 bytes")
	b.awaitText("main .said", "Rate of 0.00025 per second")
	b.awaitText("main .said", "1,234 of the burst are taken")
	b.awaitText("main .said", "in the configuration of the service")
	b.takeShot("quota")
	evalScript[bool](b, `(document.querySelector("[name=tenant]").value = "bob", true)`)
	b.pressKeys("\r")
	b.awaitText("main .said", "none counts")
	all := evalScript[string](b, `location.href + " " + performance.getEntries().map((e) => e.name).join(" ")`)
	assert.True(t, strings.Contains(all, "/quotas/find") && !strings.Contains(all, "alice") && !strings.Contains(all, "bob"), "addresses: %s", all)
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleScans: a list that has to scan says so, shows how many records were read so far, and
// can be stopped and continued. One that does not scan says nothing of it.
func TestConsoleScans(t *testing.T) {
	t.Parallel()
	o := openOffice(t, allowAnybody)
	var mu sync.Mutex
	var asked []string
	second := make(chan struct{})
	o.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/records" {
			return false
		}
		mu.Lock()
		asked = append(asked, r.URL.Query().Get("after"))
		n := len(asked)
		mu.Unlock()
		switch n {
		case 1:
			return writeDocument(w, 200, `{"records":[],"read":1000,"scans":true,"next":"b"}`)
		case 2:
			close(second)
			<-r.Context().Done() // until it is stopped
			return true
		case 3:
			return writeDocument(w, 200, `{"records":[],"read":2000,"scans":true,"next":"c"}`)
		}
		return writeDocument(w, 200, `{"records":[],"read":7,"scans":true}`)
	})
	b := openConsole(t, o.url+"/#/search?list=1&state=failed", "en")
	<-second
	b.awaitText(".found", "every record is read: 1,000 so far")
	b.awaitText(".found", "Reading …")
	b.awaitScript(`getComputedStyle(document.querySelector(".found progress")).visibility`, "visible")
	b.takeShot("scanning")
	b.focusOn(".found button.late")
	b.pressKeys("\r")
	b.awaitText(".found", "Stopped before the end")
	b.awaitScript(`document.activeElement.textContent`, "More")
	b.pressKeys("\r")
	b.awaitText(".found", "every record is read: 3,007 so far. No record.")
	assert.True(t, evalScript[bool](b, `[...document.querySelectorAll(".found :is(progress, button)")].every((e) => e.hidden)`), "it has ended")
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, strings.Join(asked, " "), " b b c", "where the parts began")
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")

	o.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/api/v1/records" && writeDocument(w, 200, `{"records":[],"read":0,"scans":false}`)
	})
	b.openView("#/search?list=1&state=in-doubt")
	b.awaitText(".found", "No record.")
	assert.True(t, !evalScript[bool](b, `document.querySelector(".found").textContent.includes("every record")`), "a list by an index does not scan")
}

// pile is an outbox and a queue whose dead messages go.
type pile struct {
	mu      sync.Mutex
	dead    []outbox.DeadMessage
	letters []*mqidem.DeadLetter
	did     []string
}

func (p *pile) Stats(context.Context) (outbox.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return outbox.Stats{Dead: len(p.dead)}, nil
}

func (p *pile) Dead(_ context.Context, after int64, limit int) (out []outbox.DeadMessage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.dead {
		if p.dead[i].Place > after && len(out) < limit {
			out = append(out, p.dead[i])
		}
	}
	return out, nil
}

func (p *pile) Redrive(_ context.Context, ids ...string) (int, error) {
	return p.remove("redrive", ids)
}

func (p *pile) Discard(_ context.Context, ids ...string) (int, error) {
	return p.remove("discard", ids)
}

func (p *pile) remove(action string, ids []string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = append(p.did, action+" "+strings.Join(ids, " "))
	p.dead = slices.DeleteFunc(p.dead, func(m outbox.DeadMessage) bool { return slices.Contains(ids, m.ID) })
	return len(ids), nil
}

func (p *pile) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letters = slices.DeleteFunc(p.letters, func(l *mqidem.DeadLetter) bool {
		if err != nil {
			return false
		}
		var v mqidem.Verdict
		v, err = see(ctx, l)
		return err == nil && v == mqidem.Remove
	})
	return err
}

func (p *pile) Send(context.Context, *mqidem.Message) error { return nil }

// outboxDone returns what was done with the outbox, and how many letters are left.
func (p *pile) outboxDone() (did string, letters int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.did, ", "), len(p.letters)
}

// TestConsoleByRule: dead messages are redriven and discarded one by one, and all of a topic or a
// cause after their number was confirmed.
func TestConsoleByRule(t *testing.T) {
	t.Parallel()
	p, at := &pile{}, time.Date(2026, 1, 31, 12, 0, 0, 1000, time.UTC)
	for i, topic := range []string{"orders", "mail", "orders", "orders"} {
		p.dead = append(p.dead, outbox.DeadMessage{Place: int64(i + 1), ID: "m" + string(rune('1'+i)), Topic: topic, Added: at, Died: at})
	}
	for i, why := range []string{"tries", "poison", "tries", "poison"} {
		p.letters = append(p.letters, &mqidem.DeadLetter{
			Message: &mqidem.Message{ID: "l" + string(rune('1'+i)), Source: "orders"}, Reason: mqidem.Reason{Why: why, Consumer: "mailer", At: at},
		})
	}
	o := openOffice(t, func(o *admin.Options) {
		o.Outboxes = map[string]admin.Outbox{"shop/a b?": p}
		o.DeadLetters = map[string]*admin.DeadLetters{"orders/eu": admin.NewDeadLetters(p, nil, consoleSecret)}
	})
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitText(".who", "rita")
	b.openView("#/messages")
	b.awaitCount("main rs-pile input[name=one]", "8")

	// one message, by keyboard
	b.pressKeys("j \t") // the first one is chosen
	b.focusOn("summary")
	b.pressKeys("\r")
	b.focusOn("textarea")
	b.pressKeys("the first one\t\r")
	b.awaitText("main .notice", "Redriven: 1.")
	b.awaitText("main .counts", "3 dead")
	did, _ := p.outboxDone()
	assert.Equal(t, did, "redrive m1", "one message")

	// all of a topic: a wrong number does nothing
	const form = `document.querySelectorAll("rs-pile")[0].querySelectorAll("details")[1]`
	b.chooseRule(form, "orders: 2", "3")
	assert.True(t, !evalScript[bool](b, form+`.querySelector("form").checkValidity()`), "a wrong number is accepted")
	b.chooseRule(form, "orders: 2", "2")
	b.takeShot("by-rule")
	evalScript[bool](b, "("+form+`.querySelector("form").requestSubmit(), true)`)
	b.awaitText("main .notice", "Discarded: 2.")
	did, _ = p.outboxDone()
	assert.Equal(t, did, "redrive m1, discard m3 m4", "all of a topic")

	// all of a cause
	const letters = `document.querySelectorAll("rs-pile")[1].querySelectorAll("details")[1]`
	b.chooseRule(letters, "poison: 2", "2")
	evalScript[bool](b, "("+letters+`.querySelector("form").requestSubmit(), true)`)
	b.awaitScript(`document.querySelectorAll("rs-pile")[1].textContent`, "Discarded: 2.")
	_, left := p.outboxDone()
	assert.Equal(t, left, 2, "letters that are left")
	b.openView("#/audit")
	b.awaitText("main .audit", `all, why "poison", until 2026-01-31T12:00:00.000001Z, at most 2`)
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// chooseRule opens a form, and chooses a rule and confirms a number.
func (b *tab) chooseRule(details, label, number string) {
	b.t.Helper()
	evalScript[bool](b, `(`+details+`.open = true)`)
	b.awaitScript(`[...`+details+`.querySelectorAll("option")].map((o) => o.textContent).join()`, label)
	evalScript[bool](b, `(() => {
		const d = `+details+`, s = d.querySelector("select");
		s.value = [...s.options].find((o) => o.textContent === "`+label+`").value;
		s.dispatchEvent(new Event("change"));
		d.querySelector("[name=reason]").value = "by rule";
		const n = d.querySelector("[name=confirmed]");
		n.value = "`+number+`";
		n.dispatchEvent(new Event("input"));
		return true })()`)
}

// TestConsoleLoadsOneLanguage: a browser loads the texts of the language that it shows.
func TestConsoleLoadsOneLanguage(t *testing.T) {
	t.Parallel()
	o := openOffice(t, allowAnybody)
	for language, other := range map[string]string{"en": "zh", "zh": "en"} {
		b := openConsole(t, o.url, language)
		b.awaitLoaded()
		files := evalScript[string](b, `performance.getEntriesByType("resource").map((e) => e.name.split("/").at(-1)).join(" ")`)
		assert.True(t, strings.Contains(files, language+".js") && !strings.Contains(files, other+".js"), "%s: %s", language, files)
		t.Log(language, evalScript[string](b, `(() => { const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((e) => !e.name.includes("/api/"))];
			const sum = (of) => all.reduce((n, e) => n + e[of], 0);
			return all.length + " files, transferred " + sum("transferSize") + ", compressed " + sum("encodedBodySize") + ", uncompressed " + sum("decodedBodySize") })()`))
		b.runActions("the other language", chromedp.Focus("header .tools [lang]"), chromedp.KeyEvent("\r"))
	}
}
