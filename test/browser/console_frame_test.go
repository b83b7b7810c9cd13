package browsertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// spokenText is what a screen reader reads of an element.
func spokenText(selector string) string {
	return `(() => { const e = document.querySelector("` + selector + `").cloneNode(true);
		e.querySelectorAll("[aria-hidden=true]").forEach((x) => x.remove());
		return e.textContent })()`
}

// setWindow changes the state of the window.
func (b *tab) setWindow(state browser.WindowState) {
	b.t.Helper()
	w, err := chromedp.Call(b.ctx, browser.GetWindowForTarget, browser.GetWindowForTargetParams{})
	assert.NoError(b.t, err, "window")
	_, err = chromedp.Call(b.ctx, browser.SetWindowBounds, browser.SetWindowBoundsParams{WindowID: w.WindowID, Bounds: &browser.Bounds{WindowState: state}})
	assert.NoError(b.t, err, "window %s", state)
}

// TestConsoleCountsDoubts: the title and the navigation say how many doubts wait, in each view, and
// follow what happens without a press of a key. The view of the doubts says that it is older.
func TestConsoleCountsDoubts(t *testing.T) {
	t.Parallel()
	for language, want := range map[string]struct{ spoken, view, older string }{
		"en": {"In doubt Waiting for a person: ", "Traffic", "In doubt now: 9."},
		"zh": {"存疑 等待人工处理：", "流量", "现在有 9 条存疑"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t)
			b := openConsole(t, o.url+"/#token=rsadmin_rita", language)
			b.awaitScript("document.title", "(8) ")
			b.awaitScript(spokenText("nav a"), want.spoken+"8")
			b.awaitScript(`document.querySelector("nav .badge [aria-hidden]").textContent`, "8")
			b.openView("#/traffic")
			b.awaitScript("document.title", "(8) "+want.view+" · retrysafe")
			b.openView("#/doubts")
			o.putInDoubt(t, "one-more", "reset")
			b.awaitScript("document.title", "(9) ")
			b.awaitScript(spokenText("nav a"), want.spoken+"9")
			b.awaitText("body > [role=status]", "9")
			b.awaitText("main [role=status]", want.older)
			b.focusOn("main [role=status] button")
			b.pressKeys("\r")
			b.awaitText(".total", "9")
			b.awaitScript(`document.querySelector("main [role=status]").textContent + "."`, ".")

			// while no one sees the page; the browser slows its clocks down
			b.setWindow(browser.WindowStateMinimized)
			b.awaitScript("document.hidden", "true")
			for i := range 2 { // the first one may be seen by a clock that was set before
				o.putInDoubt(t, fmt.Sprintf("in-the-background-%d", i), "reset")
				b.awaitScript("document.title", fmt.Sprintf("(%d) ", 10+i))
			}
			assert.True(t, evalScript[bool](b, "document.hidden"), "the page is in the background")
			b.setWindow(browser.WindowStateNormal)

			// what a person resolves waits no more
			b.openView(b.aDoubt())
			b.fillResolveForm("done", "found it")
			evalScript[bool](b, submit)
			b.awaitText(".notice", "✓")
			b.awaitScript("document.title", "(10) ")
			assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
		})
	}
}

// TestConsoleCountUnknown: a count that cannot be read is unknown, and never 0 or an old one.
func TestConsoleCountUnknown(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	var document atomic.Pointer[string]
	var asked, refused atomic.Int64
	o.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/in-doubt" {
			return false
		}
		asked.Add(1)
		if r.Header.Get("Authorization") == "Bearer wrong" {
			refused.Add(1)
		}
		d := document.Load()
		return d != nil && writeDocument(w, 200, *d)
	})
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitScript("document.title", "(8) ")
	b.openView("#/workers")
	const unknown = "In doubt The number is unknown"
	for _, away := range []string{"offline", "store"} {
		o.away.Store(&away)
		b.awaitScript("document.title", "(?) ID workers")
		assert.Equal(t, evalScript[string](b, spokenText("nav a")), unknown, "%s: what is read", away)
		assert.Equal(t, evalScript[string](b, `document.querySelector("nav .badge [aria-hidden]").textContent`), "?", "%s: what is seen", away)
		o.away.Store(nil)
		b.awaitScript("document.title", "(8) ")
	}
	for text, want := range map[string]string{
		`{}`: "(?) ", `{"total":"0"}`: "(?) ", `{"total":1000,"more":true}`: "(1,000+) ", `{"total":1}`: "(1) ",
	} {
		document.Store(&text)
		b.awaitScript("document.title", want+"ID workers")
	}
	none := `{"total":0}`
	document.Store(&none)
	b.awaitScript(`"[" + document.title`, "[ID workers")
	assert.Equal(t, evalScript[string](b, spokenText("nav a")), "In doubt Waiting for a person: 0", "what is read of none")
	document.Store(nil)

	// who is not known is not asked for again and again: each time is a line in the log
	b.openView("#token=wrong")
	b.awaitScript("document.title", "(?) ")
	b.awaitScript(`document.querySelector("dialog").open`, "true")
	n := refused.Load()
	<-time.After(6 * time.Second)
	assert.Equal(t, refused.Load(), n, "calls after the refusal")
	assert.True(t, asked.Load() > n, "calls before it")
}

// TestConsoleHeaderOfAPhone: the header is one line of at most 64 pixels, upright, turned and on a
// desk. What does not fit is in a
// menu, which is opened, walked and left by keyboard.
func TestConsoleHeaderOfAPhone(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"en", "zh"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t)
			b := openConsole(t, o.url+"/#token=rsadmin_rita", language)
			b.awaitText(".who", "rita")
			b.runActions("size", chromedp.EmulateViewport(390, 844))
			views := o.consoleViews(b)
			for _, size := range [][2]int64{{1280, 844}, {844, 390}, {390, 844}} {
				b.runActions("size", chromedp.EmulateViewport(size[0], size[1]))
				for name, hash := range views {
					b.openView(hash)
					high := evalScript[float64](b, `document.querySelector("header").getBoundingClientRect().height`)
					assert.True(t, high > 0 && high <= 64, "%s, %v: the header is %v pixels high", name, size, high)
				}
			}
			b.openView("#/doubts")
			b.awaitText("header .waiting .badge", "8")

			const isOpen = `document.querySelector(".menu").getAttribute("aria-expanded") + document.querySelector(".panel").checkVisibility()`
			b.awaitScript(isOpen, "falsefalse")
			b.focusOn(".menu")
			b.pressKeys("\r\t")
			b.awaitScript(isOpen, "truetrue")
			b.awaitScript("document.activeElement.hash", "#/doubts")
			b.pressKeys("\x1b")
			b.awaitScript(isOpen, "falsefalse")
			b.awaitScript("document.activeElement.className", "menu")
			// past its end it closes: it would cover what has the focus
			b.pressKeys("\r")
			b.focusOn("main *")
			b.awaitScript(isOpen, "falsefalse")
			// a view is chosen
			b.runActions("menu", chromedp.Focus(".menu"))
			b.pressKeys("\r")
			b.focusOn("nav [href='#/audit']")
			b.pressKeys("\r")
			b.awaitScript("location.hash", "#/audit")
			b.awaitScript(isOpen, "falsefalse")
			b.awaitScript("document.activeElement.id", "main")
			// the key that searches opens it
			b.pressKeys("/")
			b.awaitScript(isOpen, "truetrue")
			b.awaitScript("document.activeElement.name", "quick")
			// a dialog gives the focus back to what opened it
			b.focusOn(".who")
			b.pressKeys("\r")
			b.awaitScript(`document.querySelector("dialog").open`, "true")
			b.pressKeys("\x1b")
			b.awaitScript(`document.querySelector("dialog").open`, "false")
			b.awaitScript("document.activeElement.className", "who")
			assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
		})
	}
}

// trafficOfTest has 120 requests in one minute, and in another one some of each kind.
const trafficOfTest = `{"routes":[{"name":"POST /payments","outcomes":{"executed":%d}}],"history":[
	{"at":"2026-01-31T11:30:10Z","span_s":10,"outcomes":{"executed":100}},
	{"at":"2026-01-31T11:31:00Z","span_s":10,"outcomes":{"replayed":20}},
	{"at":"2026-01-31T11:58:10Z","span_s":10,"outcomes":{"executed":30,"refused":12,"doubt":3}},
	{"at":"2026-01-31T12:00:00Z","span_s":10,"outcomes":{}}]}`

// TestConsoleTrafficHasAScale: the chart has an axis of numbers and one of time, with their units,
// and the bars are as high as the axis says. It can be seen in both themes, and is a table too,
// which stays as it is when the page asks again.
func TestConsoleTrafficHasAScale(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	var asked atomic.Int64
	o.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/api/v1/traffic" && writeDocument(w, 200, fmt.Sprintf(trafficOfTest, asked.Add(1)))
	})
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitText(".who", "rita")
	_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
	assert.NoError(t, err, "time zone")
	b.openView("#/traffic")
	b.awaitText(".chart .unit", "Requests per minute")
	b.awaitText(".chart figcaption", "Time, by the clock of this browser")
	texts := func(selector string) string {
		return evalScript[string](b, `[...document.querySelectorAll("`+selector+`")].map((e) => e.textContent).join(" ")`)
	}
	assert.Equal(t, texts(".numbers text"), "0 50 100 150", "the axis of numbers")
	assert.Equal(t, texts(".times text"), "19:15 19:30 19:45", "the axis of time")
	// 120 of 150 at 19:30, in the middle of its mark
	at := evalScript[[]float64](b, `(() => {
		const box = (e) => e.getBoundingClientRect();
		const bar = box(document.querySelector(".plot rect.done")), plot = box(document.querySelector(".plot")), mark = box(document.querySelectorAll(".times text")[1]);
		const number = (i) => { const r = box(document.querySelectorAll(".numbers text")[i]); return r.y + r.height / 2; };
		return [bar.height / plot.height, bar.x + bar.width / 2 - mark.x - mark.width / 2, number(0) - plot.bottom, number(3) - plot.y] })()`)
	assert.True(t, at[0] > 0.795 && at[0] < 0.805, "120 of 150 are %v of the height", at[0])
	for _, off := range at[1:] {
		assert.True(t, off > -2 && off < 2, "the marks are beside what they name: %v", at)
	}
	b.awaitScript(`document.querySelector(".plot").getAttribute("aria-label")`, "Most requests in a minute: 120, at 19:30.")

	for _, scheme := range []string{"light", "dark"} {
		b.setColorScheme(scheme)
		b.awaitScript(`matchMedia("(prefers-color-scheme: `+scheme+`)").matches`, "true")
		b.takeShot("scale-" + scheme)
		low := evalScript[string](b, contrastOfChart)
		assert.Equal(t, low, "", "%s: what cannot be seen", scheme)
	}

	// the table: by keyboard, and it keeps the focus while the page asks again
	b.focusOn("main summary")
	b.pressKeys("\r")
	b.awaitScript(`document.querySelector("main details").open`, "true")
	rows := evalScript[string](b, `[...document.querySelectorAll("main tbody tr")].map((r) => [...r.cells].map((c) => c.textContent).join(" ")).filter((r) => !r.endsWith(" 0 0 0")).join(", ")`)
	assert.Equal(t, rows, "19:58 30 12 3, 19:30 120 0 0", "minutes with requests")
	b.runActions("axe", chromedp.Evaluate[chromedp.Void](axe+";0"))
	b.isForEverybody("table")
	assert.Equal(t, texts("main thead th"), "Minute from done or replayed refused or not done in doubt", "the columns")
	evalScript[bool](b, `(window.cell = document.querySelector("main tbody td"), true)`)
	n := asked.Load()
	b.awaitScript(`document.querySelector("main .rows").textContent`, fmt.Sprint(n+1))
	assert.True(t, evalScript[bool](b, `document.activeElement.matches("main summary") && document.querySelector("main details").open && cell.isConnected`), "the table stays when the page asks again")
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// contrastOfChart names what of the chart is not 3 times (texts: 4.5 times) as bright or as dark as
// the card.
const contrastOfChart = `(() => {
	const light = (color) => { const [r, g, b] = color.match(/[\d.]+/g).map((x) => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const card = light(getComputedStyle(document.querySelector("section.card")).backgroundColor);
	const contrast = (color) => { const l = light(color); return (Math.max(l, card) + 0.05) / (Math.min(l, card) + 0.05); };
	return [[".done", 3], [".refused", 3], [".doubt", 3], [".numbers text", 4.5], [".times text", 4.5]].map(([s, least]) => [s, contrast(getComputedStyle(document.querySelector(".chart " + s)).fill), least])
		.filter(([, got, least]) => got < least).join(" ") })()`

// TestConsoleDialogsKeepTheFocus: Tab does not leave a dialog, and Escape gives the focus back.
func TestConsoleDialogsKeepTheFocus(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	b.pressKeys("jj")
	const row = `[...document.querySelectorAll("[data-row]")].indexOf(document.activeElement)`
	for _, key := range []string{"?", "i"} {
		b.awaitScript(row, "1")
		b.pressKeys(key)
		b.awaitScript(`document.querySelector("dialog").open`, "true")
		inside := 0
		for range 12 {
			b.pressKeys("\t")
			where := evalScript[string](b, `document.activeElement.closest("dialog") ? "dialog" : document.activeElement.tagName`)
			assert.True(t, where == "dialog" || where == "BODY", "%s: Tab leaves the dialog: %s", key, where)
			inside += strings.Count(where, "dialog")
		}
		assert.True(t, inside >= 6, "%s: Tab stays in the dialog %d of 12 times", key, inside)
		b.pressKeys("\x1b")
		b.awaitScript(`document.querySelector("dialog").open`, "false")
	}
	b.awaitScript(row, "1")
}

// TestConsoleOpensWhileAway: a page that is opened while the API is away learns who one is, what
// the server has and how many doubts wait when the API is back.
func TestConsoleOpensWhileAway(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	var away atomic.Bool
	away.Store(true)
	o.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		return away.Load() && strings.HasPrefix(r.URL.Path, "/api/") && writeDocument(w, 503, `{"status":503,"code":"unavailable"}`)
	})
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitScript("document.title", "(?) In doubt")
	b.awaitText("main .problem", "The store does not answer")
	assert.True(t, !evalScript[bool](b, `document.querySelector("nav").textContent.includes("Traffic")`), "what the server has is not known yet")
	away.Store(false)
	b.awaitText(".who", "rita: view")
	b.awaitText("nav", "Traffic")
	b.awaitScript("document.title", "(8) In doubt")
	b.awaitText(".total", "8")
}
