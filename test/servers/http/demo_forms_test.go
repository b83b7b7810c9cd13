package http_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestDemoForms double-clicks in each form of the demonstration, and then sends their last requests
// again.
func TestDemoForms(t *testing.T) {
	t.Parallel()
	b := openTab(t, startDemo(t))
	b.awaitText(t, "#form-plain .count", "No order yet")
	assert.True(t, evalScript[bool](t, b, `attack.disabled`), "there is nothing to send again yet")
	b.runActions(t, "click twice", chromedp.ScrollIntoView("#twice"))
	b.click(t, "#twice")
	unprotected := map[string]string{"plain": "✗ 2 orders by one form", "button": "✓ 1 order by one form", "redirect": "✗ 2 orders by one form"}
	for way, count := range unprotected {
		b.awaitText(t, "#form-"+way+" .count", count)
	}
	for _, way := range []string{"token", "key", "all"} {
		b.awaitText(t, "#form-"+way+" .count", "✓ 1 order by one form")
		frame := `document.querySelector("#form-` + way + ` iframe").contentDocument`
		evalScript[bool](t, b, `new Promise((go) => { (function look() { `+frame+`?.getElementById("thanks") ? go(true) : setTimeout(look, 20) })() })`)
		assert.Contains(t, evalScript[string](t, b, frame+`.getElementById("thanks").textContent`), "Thank you: order", "what the second click was told")
	}
	b.click(t, "#attack")
	for _, way := range []string{"plain", "button", "redirect"} {
		b.awaitText(t, "#copies [data-way="+way+"]", "5 more")
	}
	for _, way := range []string{"token", "key", "all"} {
		b.awaitText(t, "#copies [data-way="+way+"]", "5× the first answer again\tnone\t1")
		b.awaitText(t, "#form-"+way+" .count", "✓ 1 order by one form")
	}
	b.awaitText(t, "#form-button .count", "✗ 6 orders by one form")
	b.checkWidth(t, 1280)
	b.runActions(t, "a phone", chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile), chromedp.EmulateViewport(390, 844))
	b.checkWidth(t, 390)

	b.click(t, "#forms-new")
	b.awaitText(t, "#form-plain .count", "No order yet")
	b.click(t, "#twice")
	b.awaitText(t, "#form-all .count", "✓ 1 order by one form")
	b.awaitText(t, "#form-plain .count", "✗ 2 orders by one form")
	assert.Equal(t, b.failures.failuresSoFar(), nil, "errors in the console")
}
