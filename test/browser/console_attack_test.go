package browsertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// aDoubt opens the first doubt, as rita, and returns its address.
func (b *tab) aDoubt() string {
	b.t.Helper()
	b.awaitText(".who", "rita")
	b.openView("#/doubts")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	record := evalScript[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
	b.openView(record)
	b.awaitScript(`!!document.querySelector("#resolve form")`, "true")
	return record
}

// fillResolveForm fills in the form that resolves.
func (b *tab) fillResolveForm(outcome, reason string) {
	b.t.Helper()
	evalScript[bool](b, `(document.querySelector("#resolve [value=`+outcome+`]").click(), document.querySelector("#resolve [name=reason]").value = "`+reason+`", true)`)
}

const submit = `(document.querySelector("#resolve form").requestSubmit(), true)`

// TestConsoleResolvesOnce: two clicks on Resolve send one request, and while it is under way the
// page says that it waits.
func TestConsoleResolvesOnce(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	var sent atomic.Int64
	goOn := make(chan struct{})
	o.setHook(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/resolve") {
			sent.Add(1)
			<-goOn
		}
		return false
	})
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.aDoubt()
	b.fillResolveForm("done", "found it")
	press := b.aimAt("#resolve button[type=submit]")
	if evalScript[bool](b, `document.querySelector("#resolve button[type=submit]").getBoundingClientRect().bottom > innerHeight`) {
		evalScript[bool](b, `(document.querySelector("#resolve button[type=submit]").scrollIntoView(), true)`)
		press = b.aimAt("#resolve button[type=submit]")
	}
	press()
	press()
	evalScript[bool](b, submit) // not even a script sends it again
	b.awaitText("#resolve form", "Waiting for the answer")
	close(goOn)
	b.awaitText(".notice", "Resolved")
	assert.Equal(t, sent.Load(), int64(1), "requests")
}

// TestConsoleLosesARole: a token loses a role while its owner fills in a form. The page says so,
// shows the roles that are left, and keeps what was written; so it does when the token is replaced.
func TestConsoleLosesARole(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.aDoubt()
	b.fillResolveForm("done", "payment 7 is there")
	o.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/resolve"):
			return writeDocument(w, 403, `{"status":403,"code":"forbidden","detail":"rita has the roles view"}`)
		case strings.HasSuffix(r.URL.Path, "/me"):
			return writeDocument(w, 200, `{"name":"rita","roles":["view"],"namespace":"shop","audit":true,"traffic":true}`)
		}
		return false
	})
	evalScript[bool](b, submit)
	b.awaitText("#resolve .problem", "or not any more. Nothing was done")
	b.awaitScript(`document.querySelector(".who").textContent + "."`, "rita: view.")
	assert.Equal(t, evalScript[string](b, `document.querySelector("#resolve [name=reason]").value`), "payment 7 is there", "what was written")

	o.setHook(func(w http.ResponseWriter, _ *http.Request) bool {
		return writeDocument(w, 401, `{"status":401,"code":"unauthenticated","detail":"this token is not known"}`)
	})
	evalScript[bool](b, submit)
	b.awaitScript(`document.querySelector("dialog").open`, "true")
	o.setHook(func(http.ResponseWriter, *http.Request) bool { return false })
	b.runActions("give the token", chromedp.Focus("dialog [name=token]"), chromedp.KeyEvent("rsadmin_rita\r"))
	b.awaitText(".who", "rita: view, reveal, resolve")
	assert.Equal(t, evalScript[string](b, `document.querySelector("#resolve [name=reason]").value`), "payment 7 is there", "what was written")
	evalScript[bool](b, submit)
	b.awaitText(".notice", "Resolved")
}

// TestConsoleLostAnswer: the server resolves, and its answer is lost. The page does not say that
// nothing was done.
func TestConsoleLostAnswer(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.aDoubt()
	b.fillResolveForm("done", "found it")
	o.setHook(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/resolve") {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	evalScript[bool](b, submit)
	b.awaitText("#resolve .problem", "It is not known whether the change was made")
	b.awaitText("#resolve .problem", "Load the page again")
	assert.True(t, !evalScript[bool](b, `document.querySelector("#resolve").textContent.includes("othing is lost")`), "nothing is promised")
	o.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/resolve") {
			return false
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<h1>502</h1>"))
		return true
	})
	evalScript[bool](b, submit)
	b.awaitText("#resolve .problem", "It is not known whether the change was made")
}

// TestConsoleTwoTabs: two tabs show one record; the second one says what the first one did. Each
// tab has its own token.
func TestConsoleTwoTabs(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	first := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	record := first.aDoubt()
	second := first.openSecondTab(o.url + "/#token=rsadmin_vera")
	second.awaitText(".who", "vera: view")
	second.openView(record)
	second.awaitText("#resolve", "it needs the role resolve")
	second.openView("#token=rsadmin_rita")
	second.awaitText(".who", "rita")
	second.openView(record)
	second.awaitScript(`!!document.querySelector("#resolve form")`, "true")
	first.fillResolveForm("done", "the first tab")
	evalScript[bool](first, submit)
	first.awaitText(".notice", "Resolved")
	second.fillResolveForm("not-done", "the second tab")
	evalScript[bool](second, submit)
	second.awaitText("#resolve .problem", "Nothing was done")
	second.awaitText("#resolve .problem", "in doubt → completed")
	evalScript[bool](second, `(document.querySelector("#resolve .problem button").click(), true)`)
	second.awaitScript(`document.querySelector("h1").textContent`, "completed")
}

// TestConsoleSlowStore: a view says at once what it is, and that it loads. Leaving it ends the
// request, so that the server does not work for no one.
func TestConsoleSlowStore(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitText(".who", "rita")
	ended := make(chan struct{})
	o.setHook(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/workers" {
			return false
		}
		<-r.Context().Done()
		close(ended)
		return true
	})
	evalScript[bool](b, `(location.hash = "#/workers", true)`)
	b.awaitText("h1", "ID workers")
	b.awaitScript(`getComputedStyle(document.querySelector("main .late")).visibility`, "visible")
	b.awaitText("main .late", "Loading")
	b.pressKeys("gs")
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the request goes on after its view was left")
	}
	b.awaitText("h1", "Search")
	b.awaitLoaded()
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleKeepsWhatIsWritten: the page asks again by itself while the server is away, but not
// over a form that a person has begun to fill in; and the key r asks first.
func TestConsoleKeepsWhatIsWritten(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.aDoubt()
	away := "offline"
	o.away.Store(&away)
	b.pressKeys("r")
	b.awaitText("main .problem", "tries again every five seconds")
	b.fillResolveForm("done", "half a sentence")
	o.away.Store(nil)
	<-time.After(6 * time.Second) // it would have asked again
	assert.Equal(t, evalScript[string](b, `document.querySelector("#resolve [name=reason]")?.value ?? "gone"`), "half a sentence", "what was written")
	evalScript[bool](b, `(window.asked = 0, window.confirm = () => { asked++; return false; }, document.activeElement.blur(), true)`)
	b.pressKeys("r")
	assert.Equal(t, evalScript[int](b, "asked"), 1, "questions before it loads again")
	evalScript[bool](b, `(document.querySelector("#resolve form").reset(), true)`)
	b.awaitScript(`document.querySelector("main > * > .problem") === null`, "true")
}

// hostile are texts that others write, and that the page shows.
var hostile = []string{
	`<img src=x onerror="window.hacked=1">`, `"><script>window.hacked=1</script>`, "shop\u202egpj.exe", "שלום עולם (1)", "مرحبا بالعالم: 12.5",
	strings.Repeat("long-name-", 20), strings.Repeat("寿限無", 50), "line\nbreak\ttab\u0000null\u200bzero", "{n} {name} $& $1", "javascript:alert(1)",
}

// openHostile opens a console whose data is hostile.
func openHostile(t *testing.T) *office {
	t.Helper()
	locks := memlock.New()
	for _, text := range hostile {
		_, err := locks.TryLock(t.Context(), lock.Request{Name: text[:min(len(text), 198)], Lease: time.Hour})
		assert.NoError(t, err, "lock %q", text)
	}
	o := openOffice(t, func(o *admin.Options) {
		o.Locks = map[string]lock.Lister{hostile[0]: locks}
		o.Outboxes = map[string]admin.Outbox{hostile[1]: deadBox{}, hostile[5]: deadBox{}}
		o.DeadLetters = map[string]*admin.DeadLetters{hostile[3] + "/?#": admin.NewDeadLetters(deadQueue{}, nil, consoleSecret)}
		for _, text := range []string{hostile[0], hostile[3], hostile[5], hostile[6], hostile[8]} {
			_, err := o.Audit.Write(t.Context(), admin.Entry{Who: text[:min(len(text), 198)], Action: text, Object: text, Reason: text, Detail: text, Result: text})
			assert.NoError(t, err, "audit")
		}
	})
	for i, text := range hostile {
		req := storeapi.AcquireRequest{
			Key:   storeapi.StoreKey{Namespace: "shop", Layer: "gw", Key: storeapi.Key{Tenant: text, Operation: text, ID: text + fmt.Sprint(i)}},
			Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour,
		}
		got, err := o.store.Acquire(t.Context(), req)
		if err != nil {
			t.Logf("%.20q is no key: %v", text, err)
			continue
		}
		err = o.store.Release(t.Context(), storeapi.ReleaseRequest{
			Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, InDoubt: true, Cause: text[:min(len(text), 60)], LastError: text, Retention: time.Hour,
		})
		assert.NoError(t, err, "release")
	}
	return o
}

// TestConsoleOfHostileData: what others wrote is shown as text. Nothing of it runs, overflows, or
// changes the direction of what stands next to it. Also at 320 pixels, which is a zoom of 400 %,
// and with text of double size.
func TestConsoleOfHostileData(t *testing.T) {
	t.Parallel()
	o := openHostile(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	assert.NoError(t, err, "reduced motion")
	b.awaitText(".who", "rita")
	b.runActions("axe", chromedp.Evaluate[chromedp.Void](axe+";0"))
	b.openView("#/doubts")
	b.awaitScript(`document.querySelectorAll("[data-row]").length > 10`, "true")
	records := evalScript[[]string](b, `[...document.querySelectorAll("[data-row]")].map((e) => e.getAttribute("href"))`)
	views := []string{"#/doubts", "#/search?list=1&state=in-doubt", "#/messages", "#/locks", "#/audit", "#/traffic", "#/quotas", "#/workers"}
	for i, hash := range append(views, records...) {
		b.openView(hash)
		b.revealHidden()
		for _, size := range []struct {
			width int64
			text  string
			check func(*tab, string)
		}{{1280, "", (*tab).isForEverybody}, {390, "", (*tab).checkWidth}, {320, "", (*tab).isForEverybody}, {800, "200%", (*tab).checkWidth}} {
			b.runActions("size", chromedp.EmulateViewport(size.width, 844))
			evalScript[bool](b, `(document.documentElement.style.fontSize = "`+size.text+`", true)`)
			size.check(b, fmt.Sprintf("hostile-%d-%d%s", i, size.width, strings.Trim(size.text, "%")))
		}
		assert.Equal(t, evalScript[int](b, `document.getAnimations().filter((a) => a.animationName !== "late").length`), 0, "%s: what moves", hash)
	}
	assert.True(t, evalScript[bool](b, `window.hacked === undefined && !document.querySelector("main :is(img, script, iframe)")`), "something of the data runs")
	b.openView("#/doubts")
	b.awaitText("main", "shop⟨U+202E⟩gpj.exe")
	b.awaitText("main", "line⟨U+000A⟩break⟨U+0009⟩tab⟨U+0000⟩null⟨U+200B⟩zero")
	b.awaitScript(`[...document.querySelectorAll("bdi")].some((e) => getComputedStyle(e).direction === "rtl")`, "true")
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// revealHidden reveals what a view hides, if it does.
func (b *tab) revealHidden() {
	b.t.Helper()
	if evalScript[bool](b, `(() => {
		const form = [...document.querySelectorAll("main form")].filter((f) => f.querySelector("button.quiet[type=submit]")).at(-1);
		if (!form) return false;
		form.querySelector("[name=reason]").value = "to look";
		form.requestSubmit();
		return true })()`) {
		b.awaitScript(`[...document.querySelectorAll("main form [name=reason]")].every((e) => e.value === "") && !document.querySelector("[aria-busy], main button[aria-disabled]")`, "true")
	}
}

// TestConsoleAddresses: every view is reached by its address, also after a reload and with Back and
// Forward; an address that is none, or a broken one, shows something that helps.
func TestConsoleAddresses(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "zh")
	record := b.aDoubt()
	heads := map[string]string{}
	hashes := []string{
		"#/doubts", "#/doubts?cause=timeout", "#/search", "#/search?list=1&state=completed", "#/traffic", "#/messages", "#/locks", "#/quotas",
		"#/workers", "#/audit", "#/audit?day=2026-01-31", record,
	}
	const head = `location.hash + " " + document.querySelector("h1")?.textContent + " | " + document.title`
	for _, hash := range hashes {
		b.openView(hash)
		if hash == record {
			b.awaitText("h1", "POST /payments 存疑")
		}
		heads[hash] = evalScript[string](b, head)
	}
	for i := len(hashes) - 2; i >= 0; i-- {
		b.goBack()
		b.awaitScript(head, heads[hashes[i]])
	}
	for i := 1; i < len(hashes); i++ {
		evalScript[bool](b, "(history.forward(), true)")
		b.awaitScript(head, heads[hashes[i]])
	}
	for _, hash := range hashes {
		b.openView(hash)
		_, err := chromedp.Call(b.ctx, cdppage.Reload, cdppage.ReloadParams{})
		assert.NoError(t, err, "reload")
		b.awaitText(".who", "rita")
		b.awaitScript(head, heads[hash])
		link := b.openSecondTab(o.url + "/#token=rsadmin_vera")
		link.awaitText(".who", "vera")
		link.openView(hash)
		link.awaitScript(head, heads[hash])
	}
	for hash, want := range map[string]string{
		"#/constructor": "存疑", "#/__proto__": "存疑", "#/": "存疑", "#": "存疑", "#/record/": "记录", "#/record/AAAA": "没有这条记录",
		"#/record/%E0%A4%A": "没有这条记录", "#/search?hash=xyz": "16 hex digits", "#/audit?day=x": "date such as", "#/search?list=1&older=x": "number from",
		"#token=%E0%A4%A": "服务器不知道你是谁",
	} {
		link := b.openSecondTab(o.url + "/#token=rsadmin_vera")
		link.awaitText(".who", "vera")
		link.openView(hash)
		link.awaitText("body", want)
		link.awaitScript(`document.querySelector("h1") !== null && window.hacked === undefined`, "true")
		assert.True(t, !strings.Contains(evalScript[string](link, "location.href"), "token"), "%s: a token stays in the address", hash)
	}
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleWithoutStorage: a browser that keeps nothing shows the page all the same.
func TestConsoleWithoutStorage(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openTab(t, "about:blank")
	_, err := chromedp.Call(b.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { get() { throw new DOMException("no", "SecurityError"); } });`,
	})
	assert.NoError(t, err, "no storage")
	b.runActions("open", chromedp.Navigate(o.url+"/#token=rsadmin_rita"))
	b.awaitText(".who", "rita")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
}

// TestConsoleTenantInNoAddress: a list of a tenant is found again with Back, and its name stands in
// no address. After a reload the page asks for it.
func TestConsoleTenantInNoAddress(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitText(".who", "rita")
	b.openView("#/search")
	b.focusOn("#search-list summary")
	b.pressKeys("\r")
	evalScript[bool](b, `(document.querySelector("#search-list [name=state]").value = "in-doubt", true)`)
	b.runActions("list", chromedp.Focus("#search-list [name=tenant]"), chromedp.KeyEvent("user-7\r"))
	b.awaitText(".found", "Shown: 8. That is all.")
	b.openView("#/audit")
	b.goBack()
	b.awaitText(".found", "Shown: 8. That is all.")
	assert.Equal(t, evalScript[string](b, `document.querySelector("#search-list [name=tenant]").value`), "user-7", "the field")
	all := evalScript[string](b, `location.href + " " + performance.getEntries().map((e) => e.name).join(" ")`)
	assert.True(t, strings.Contains(all, "/records/list") && !strings.Contains(all, "user-7"), "addresses: %s", all)
	_, err := chromedp.Call(b.ctx, cdppage.Reload, cdppage.ReloadParams{})
	assert.NoError(t, err, "reload")
	b.awaitText(".found", "Fill in the form again")
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleFindsACaller: the page searches by the caller, the key, the time and what an answer
// has, says what it searched, and asks for a reason. What is searched for stands in no address.
func TestConsoleFindsACaller(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_vera", "en")
	b.awaitText(".who", "vera")
	b.openView("#/search")
	b.awaitText("#search-list details:last-of-type", "it needs the role reveal")
	b.openView("#token=rsadmin_rita")
	b.awaitText(".who", "rita")
	b.openView("#/search")
	fill := func(fields string) {
		t.Helper()
		b.awaitScript(`!!document.querySelector("#search-list [name=location]")`, "true")
		evalScript[bool](b, `(() => {
			const form = document.querySelector("#search-list");
			form.querySelector("details:last-of-type").open = true;
			for (const [name, value] of Object.entries(`+fields+`)) form.querySelector("[name=" + name + "]").value = value;
			form.requestSubmit();
			return true;
		})()`)
	}
	fill(`{ state: "", user: "header:user-7", id: "done-7" }`)
	b.awaitText(".found", "Shown: 1. That is all.")
	evalScript[bool](b, `(document.querySelector(".found a").click(), true)`)
	b.awaitText(".searched", "header:user-7")
	b.awaitText(".searched", "done-7")
	b.openView("#/doubts")
	b.openView("#/search")
	fill(`{ state: "", user: "basic:user-7", id: "" }`)
	b.awaitText(".found", "every record is read")
	b.awaitText(".found", "No record.")
	fill(`{ state: "completed", user: "user-7", from: "2001-01-01T00:00", to: "2100-01-01T00:00" }`)
	b.awaitText(".found", "Shown: 130.")
	fill(`{ state: "completed", user: "user-7", from: "2100-01-01T00:00", to: "" }`)
	b.awaitText(".found", "No record.")
	fill(`{ state: "completed", user: "user-7", from: "", text: "order" }`)
	b.awaitText(".found", "reason")
	fill(`{ state: "completed", user: "user-7", from: "", text: "order", reason: "a customer asks" }`)
	b.awaitText(".found", "Stored answers that were searched: 130.")
	fill(`{ state: "completed", user: "user-7", location: "/payments/secret-17", text: "", reason: "a customer asks" }`)
	b.awaitText(".found", "Stored answers that were searched: 130. No record.")
	all := evalScript[string](b, `location.href + " " + performance.getEntries().map((e) => e.name).join(" ")`)
	assert.True(t, !strings.Contains(all, "user-7") && !strings.Contains(all, "secret-17") && !strings.Contains(all, "customer"), "addresses: %s", all)
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}
