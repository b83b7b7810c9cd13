package browsertest_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// attack is text that would run if the page did not escape it.
const attack = `</pre></script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"><style>body{display:none}</style>"'`

// attackReport is a report with what is long, and with answers that attack the page.
func attackReport() *check.Report {
	long := strings.Repeat("x", 300)
	curl := `curl -i -X POST http://localhost:8080/orders -H "Authorization: $AUTHORIZATION" --data-binary '{"note":"` + long + `"}'`
	broken := check.Result{
		ID: "concurrent-duplicates", Title: "Of many requests at once with one key, one takes effect", Page: "https://github.com/retrysafe/retrysafe",
		Severity: check.Critical, Verdict: check.Broken, Summary: "10 requests took effect 3 times" + attack, Help: "Claim the key before the work begins.",
	}
	for _, id := range []string{"17", "18"} {
		broken.Exchanges = append(broken.Exchanges, check.Exchange{
			Step: "the first of 10 at once", Curl: curl + id, Status: 201, Took: 30 * time.Millisecond,
			Header: http.Header{"X-Long": {long}, "X-Attack": {attack}}, Body: `{"id":` + id + `,"note":"` + long + `"}` + attack,
		})
	}
	undecided := check.Result{
		ID: "after-restart", Title: "A duplicate after a restart gets the first answer", Severity: check.Critical, Verdict: check.Undecided,
		Summary: "the service was not restarted", Help: "Give the command that starts the service again: --restart.", Page: "https://github.com/retrysafe/retrysafe",
	}
	return &check.Report{
		Target: "POST http://localhost:8080/" + long, Oracle: "GET /orders, $." + long, Started: time.Now(), Took: 4 * time.Second, Requests: 312,
		Results: []check.Result{{ID: "replayed", Title: "A duplicate gets the first answer", Verdict: check.Passed}, broken, undecided},
	}
}

// openReport opens the page of found, at an address that is a secure context or not.
func openReport(t *testing.T, host string) *tab {
	t.Helper()
	var page bytes.Buffer
	assert.NoError(t, report.HTML(&page, attackReport()), "page")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page.Bytes())
	}))
	t.Cleanup(server.Close)
	b := openTab(t, "about:blank")
	_, err := chromedp.Call(b.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: "window.refused = []; addEventListener('securitypolicyviolation', (e) => refused.push(e.violatedDirective))",
	})
	assert.NoError(t, err, "watch the policy")
	b.runActions("open", chromedp.Navigate(strings.Replace(server.URL, "127.0.0.1", host, 1)))
	b.awaitScript("document.readyState", "complete")
	return b
}

// TestReportFitsTheWindow: nothing is cut off or needs to be scrolled sideways, on a telephone, in
// a wide window, and on paper.
func TestReportFitsTheWindow(t *testing.T) {
	t.Parallel()
	b := openReport(t, "127.0.0.1")
	for _, width := range []int64{320, 390, 768, 1280} {
		b.runActions("size", chromedp.EmulateViewport(width, 844))
		wide := evalScript[[]string](b, `[...document.querySelectorAll("body *")].filter((e) => !e.closest(".sr, [hidden], style, script") &&
			(e.getBoundingClientRect().right > innerWidth + 1 || (e.tagName === "PRE" && e.scrollWidth > e.clientWidth))).map((e) => e.tagName + " " + e.className)`)
		assert.Equal(t, len(wide), 0, "at %d pixels wider than the window: %v", width, wide)
		assert.True(t, evalScript[bool](b, "document.documentElement.scrollWidth <= innerWidth"), "no scrolling sideways at %d pixels", width)
	}
	pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF())
	assert.NoError(t, err, "print")
	assert.True(t, bytes.HasPrefix(pdf, []byte("%PDF")), "a printed page")
}

// TestReportRunsNothing: what the API answered is text of the page, and the policy had nothing to
// refuse.
func TestReportRunsNothing(t *testing.T) {
	t.Parallel()
	b := openReport(t, "127.0.0.1")
	assert.True(t, evalScript[bool](b, "window.hacked === undefined"), "nothing ran")
	assert.Equal(t, evalScript[int](b, `document.images.length + document.querySelectorAll("body style, body link").length`), 0, "elements of the answers")
	assert.Contains(t, evalScript[string](b, `document.querySelector(".answers pre").textContent`), attack, "the answer is shown")
	assert.Equal(t, evalScript[int](b, "refused.length"), 0, "what the policy refused")
	assert.True(t, evalScript[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.hacked = 2"; document.body.append(s); return window.hacked === undefined })()`), "the policy refuses another script")
	b.awaitScript("refused.join()", "script-src")
}

// TestReportCopies: the buttons copy what a shell takes, also where the page has no access to the
// clipboard.
func TestReportCopies(t *testing.T) {
	t.Parallel()
	e := attackReport().Results[1].Exchanges
	for _, host := range []string{"127.0.0.1", "report.test"} {
		b := openReport(t, host)
		b.runActions("watch the clipboard", chromedp.Evaluate[chromedp.Void](`
			window.copied = [];
			window.heard = ""; // the text goes after two seconds, so it is noted when it comes
			new MutationObserver((all) => { heard = all[0].target.textContent || heard; })
				.observe(document.getElementById("said"), {childList: true});
			addEventListener("copy", () => copied.push(document.activeElement.value ?? String(getSelection())));
			if (navigator.clipboard) navigator.clipboard.writeText = async (s) => { copied.push(s) };`))
		for i, want := range []string{"# " + e[0].Step + "\n" + e[0].Curl + "\n# " + e[1].Step + "\n" + e[1].Curl + "\n", e[0].Curl, e[1].Curl} {
			button := "button[data-from$='" + []string{"-script", "-1", "-2"}[i] + "']"
			evalScript[bool](b, `(document.querySelector("`+button+`").scrollIntoView({block: "center"}), true)`)
			b.click(button)
			b.awaitScript("copied.length", strconv.Itoa(i+1))
			assert.Equal(t, evalScript[string](b, "copied.at(-1)"), want, "%s: what button %d copied", host, i)
		}
		b.awaitScript("heard", "Copied.")
	}
}

// TestReportWithoutScript: the page is complete, and has no button that does nothing.
func TestReportWithoutScript(t *testing.T) {
	t.Parallel()
	b := openReport(t, "127.0.0.1")
	b.scriptOff(true)
	b.runActions("reload", chromedp.Reload())
	visible := `[...document.querySelectorAll("button")].filter((e) => e.offsetParent).length`
	assert.Equal(t, evalScript[int](b, visible), 0, "buttons")
	assert.Equal(t, evalScript[int](b, `document.querySelectorAll(".requests li").length`), 2, "requests")
}
