package browsertest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// chromium is the browser of all tests; each test has its own profile in it.
var chromium context.Context

// work is a directory that goes when the tests have ended.
var work string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "browsertest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no directory for the browser's profile:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	work = dir
	// The shell is Chromium without windows and their panels, which need four times as much
	// processor time as the pages.
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		fmt.Fprintln(os.Stderr, "there is no Chromium to try the pages in; install it with: sudo apt-get install chromium-headless-shell")
		return 1
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// the panels of a browser that no one looks at: each tab would have a process for them
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,PreloadTopChromeWebUI"),
		// a host name that is not a secure context, unlike localhost
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox does not work for root
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	if chromium, cancel = chromedp.NewContext(ctx); chromedp.Do(chromium) != nil {
		fmt.Fprintln(os.Stderr, "the browser did not start:", path)
		return 1
	}
	defer cancel()
	return m.Run()
}

// patience is how long tests wait for an effect. It is much longer than a busy machine needs;
// waiting ends with the effect.
const patience = 2 * time.Minute

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// openTab opens a page in a new profile, which has stored nothing.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	return openIn(chromium, t, url, chromedp.WithNewBrowserContext())
}

// openSecondTab opens a page in a further tab of the same profile.
func (b *tab) openSecondTab(url string) *tab {
	b.t.Helper()
	return openIn(b.ctx, b.t, url)
}

func openIn(parent context.Context, t *testing.T, url string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 20*patience)
	t.Cleanup(cancel)
	b := &tab{t, ctx}
	b.runActions("open "+url, chromedp.EmulateViewport(800, 600), chromedp.Navigate(url))
	return b
}

// forSubtest returns the same tab for a subtest.
func (b *tab) forSubtest(t *testing.T) *tab {
	t.Helper()
	return &tab{t, b.ctx}
}

func (b *tab) runActions(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	assert.NoError(b.t, chromedp.Do(b.ctx, actions...), "%s", what)
}

func (b *tab) scriptOff(off bool) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
	assert.NoError(b.t, err, "script off: %v", off)
}

// aimAt returns a function that presses an element with the mouse, whether or not it is disabled. A
// page that is about to be left accepts presses but answers no queries, so aim first. A page whose
// style arrives later moves the element; so a page that is still loading gets ten seconds.
func (b *tab) aimAt(selector string) (press func()) {
	b.t.Helper()
	at := evalScript[[]float64](b, `(async () => {
		for (let i = 0; document.readyState !== "complete" && i < 1000; i++) await new Promise((next) => setTimeout(next, 10));
		const r = document.querySelector("`+selector+`").getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`)
	return func() {
		b.t.Helper()
		b.runActions("click "+selector, chromedp.MouseClickXY(at[0], at[1]))
	}
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.aimAt(selector)()
}

// goBack presses the Back button. It does not wait: a page that the browser has cached is not
// loaded.
func (b *tab) goBack() {
	b.t.Helper()
	h, err := chromedp.Run(b.ctx, chromedp.NavigationEntries())
	assert.NoError(b.t, err, "history")
	_, err = chromedp.Call(b.ctx, cdppage.NavigateToHistoryEntry, cdppage.NavigateToHistoryEntryParams{EntryID: h.Entries[h.CurrentIndex-1].ID})
	assert.NoError(b.t, err, "back")
}

// evalScript returns the result of a script, or what its promise resolves to.
func evalScript[V any](b *tab, script string) V {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](script, chromedp.EvalAwaitPromise))
	assert.NoError(b.t, err, "%s", script)
	return v
}

// awaitScript runs a script repeatedly until it returns want. Pages may change in the meantime.
func (b *tab) awaitScript(script, want string) {
	b.t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		v, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+script+")"))
		if got = v; err != nil {
			got = err.Error()
		}
		if err == nil && strings.Contains(v, want) {
			return
		}
	}
	b.t.Fatalf("%s is %q, and %q was expected", script, got, want)
}

// awaitText waits for the text of an element.
func (b *tab) awaitText(selector, want string) {
	b.t.Helper()
	b.awaitScript(`document.querySelector("`+selector+`")?.textContent`, want)
}
