package browsertest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// look returns how a form appears on the screen and to a screen reader.
const look = `[form.hasAttribute("aria-busy") ? form.ariaBusy : "idle", document.querySelector("output")?.textContent ?? "", go.disabled ? "off" : "on",
	document.activeElement.id || document.activeElement.tagName].join("|")`

// openEnhanced opens the form of a shop with the given options.
func openEnhanced(t *testing.T, s *shop, path, opts string) *tab {
	t.Helper()
	b := openTab(t, s.url+path)
	evalScript[bool](b, `import("/retrysafe.js").then(({ enhance }) => {
		window.rs = enhance;
		window.form = document.getElementById("form");
		window.go = document.getElementById("go");
		window.again = enhance(form, `+opts+`);
		return true;
	})`)
	return b
}

// TestEnhanceShows tests that the state is shown and announced, the focus is not lost, and the
// button is enabled again.
func TestEnhanceShows(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := openEnhanced(t, s, "/plain", `{ send: () => new Promise((yes, no) => { window.yes = yes; window.no = no }), texts: { busy: "Please wait" }, onError: (e) => { window.told = e } }`)
	evalScript[bool](b, `window.submits = 0, form.addEventListener("submit", () => { submits++ }), true`)
	assert.True(t, evalScript[bool](b, `!form.contains(document.querySelector("output"))`), "the live region stands outside of what is busy")
	assert.Equal(t, evalScript[string](b, look), "idle||on|BODY", "before")
	// the second click comes before the button is disabled
	evalScript[bool](b, `go.click(), go.click(), true`)
	b.awaitScript("go.disabled", "true")
	assert.Equal(t, evalScript[string](b, `form.ariaBusy + document.querySelector("output").textContent`), "truePlease wait", "meanwhile")
	b.click("#go")
	b.runActions("Enter", chromedp.Focus("#item"), chromedp.KeyEvent("\r"))
	assert.Equal(t, evalScript[int](b, "submits"), 1, "submits that later listeners have seen")
	evalScript[bool](b, `yes(), true`)
	b.awaitScript("go.disabled", "false")
	assert.Equal(t, evalScript[string](b, look), "idle||on|item", "after; the focus has moved on meanwhile")

	b.runActions("press the button by keyboard", chromedp.Focus("#go"), chromedp.KeyEvent("\r"))
	b.awaitScript("go.disabled", "true")
	evalScript[bool](b, `no("away"), true`)
	b.awaitScript("go.disabled", "false")
	assert.Equal(t, evalScript[string](b, look), "idle|That did not work. Please try again.|on|go", "after a failure; the focus is where it was")
	assert.Equal(t, evalScript[string](b, "told"), "away", "the error")
	assert.Equal(t, len(s.requestKeys()), 0, "requests")
}

// TestEnhanceSendsTheButton tests that the button is sent: one that is disabled too soon would not
// be.
func TestEnhanceSendsTheButton(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]string{"plain": "{}", "with a token": `{ token: "/.retrysafe/tokens" }`, "with a key": `{ key: true }`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			b := openEnhanced(t, s, "/plain", opts)
			b.click("#go")
			b.awaitText("#done", "Order 1")
			form := s.formBody(len(s.requestKeys()) - 1)
			assert.Equal(t, form.Get("how")+form.Get("item"), "buttontea", "what was sent")
			assert.Equal(t, len(form.Get("idempotency_key")) >= 22, name != "plain", "the hidden field %q", form.Get("idempotency_key"))
		})
	}
}

// TestEnhanceToken tests that the token is fetched once for one press, also for a double click, and
// that nothing is sent without a token.
func TestEnhanceToken(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := openEnhanced(t, s, "/token", `{ token: "/none", onError: (e) => { window.told = e.message } }`)
	evalScript[bool](b, `form.elements.idempotency_key.value = "", true`)
	b.click("#go")
	b.awaitScript("window.told", "no token, status 404; nothing was sent")
	assert.Equal(t, evalScript[string](b, look), "idle|That did not work. Please try again.|on|go", "after a failure")
	b = openEnhanced(t, s, "/token", `{ token: "/.retrysafe/tokens" }`)
	evalScript[bool](b, `form.elements.idempotency_key.value = "", true`)
	s.resetCounts()
	s.closeGate()
	press := b.aimAt("#go")
	press()
	press()
	s.awaitRequests(2)
	press()
	s.openGate()
	b.awaitText("#done", "Order 1")
	assert.Equal(t, outcome{len(s.requestKeys()), s.ordersMade()}, outcome{2, 1}, "the token's request, and one order")
}

// TestEnhanceLeavesMistakesAlone tests that a form that is invalid, or that another listener stops,
// is not busy afterwards.
func TestEnhanceLeavesMistakesAlone(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := openEnhanced(t, s, "/plain", `{}`)
	evalScript[bool](b, `item.required = true, item.value = "", true`)
	b.click("#go")
	assert.Equal(t, evalScript[string](b, look), "idle||on|item", "not valid: the browser leads to the mistake")
	evalScript[bool](b, `item.value = "tea", form.addEventListener("submit", (e) => { e.preventDefault() }), true`)
	b.click("#go")
	b.awaitScript("form.ariaBusy", "null")
	assert.Equal(t, evalScript[string](b, look), "idle||on|go", "stopped by another listener")
	assert.Equal(t, len(s.requestKeys()), 0, "requests")
	b = openEnhanced(t, s, "/token", `{ token: "/.retrysafe/tokens" }`)
	evalScript[bool](b, `form.elements.idempotency_key.value = "", item.required = true, form.addEventListener("submit", () => { item.value = "" }), true`)
	b.click("#go")
	b.awaitScript("form.ariaBusy", "null")
	assert.Equal(t, evalScript[string](b, look), "idle||on|item", "not valid any more when the token is there")
	assert.Equal(t, s.ordersMade(), 0, "orders")
}

// TestEnhanceGivesBack tests that the button is enabled again by itself if the answer leaves the
// page open, and when the user returns to the page.
func TestEnhanceGivesBack(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	b := openEnhanced(t, s, "/plain", `{ giveBack: 50 }`)
	evalScript[bool](b, `form.action = "/file", true`)
	b.click("#go")
	s.awaitRequests(1)
	b.awaitScript("form.ariaBusy", "null")
	assert.Equal(t, evalScript[string](b, look), "idle||on|go", "after an answer that is a file")

	b = openEnhanced(t, s, "/plain", `{}`)
	b.click("#go")
	b.awaitText("#done", "Order 1")
	b.goBack()
	b.awaitScript("!!document.getElementById('form')", "true")
	assert.True(t, evalScript[bool](b, "window.form === document.getElementById('form')"), "the browser has kept the page as it was")
	b.awaitScript("form.ariaBusy", "null")
	// A browser without windows gives no element of such a page the focus.
	assert.Contains(t, evalScript[string](b, look), "idle||on|", "come back to")
}

// TestBackIsTheSameKey tests that a page with a key still has that key after the user has left it
// and gone back, even if the browser has not kept it in memory. Under no-store it would have
// another key, and the second press would be a second order.
func TestBackIsTheSameKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string
		orders int
	}{"private, no-cache": {"/key", 1}, "no-store": {"/no-store", 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			b := openTab(t, s.url+c.path)
			// such a page is not kept in memory
			evalScript[bool](b, `addEventListener("unload", () => {}), navigator.locks.request("stay", () => new Promise(() => {})), true`)
			b.click("#go")
			b.awaitText("#done", "Order 1")
			b.goBack()
			b.awaitScript("!!document.getElementById('form')", "true")
			assert.True(t, evalScript[bool](b, "performance.getEntriesByType('navigation')[0].type === 'back_forward'"), "the page was built again")
			b.click("#go")
			b.awaitText("#done", fmt.Sprint("Order ", c.orders))
			assert.Equal(t, s.ordersMade(), c.orders, "orders")
		})
	}
}

// answerFile answers with a status that leaves the page open, like a download.
func answerFile(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
