package http_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// tab is a page in a real browser.
type tab struct {
	ctx      context.Context
	failures *failures
}

// findBrowser fails, and does not skip, if there is no browser: what was not tested has not passed.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium to look at the page with; install it with: sudo apt-get install chromium-headless-shell")
	return ""
}

// openTab starts a browser with an empty profile, and opens a page that may use the clipboard.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	profile, err := os.MkdirTemp("", "retrysafe-browser-")
	assert.NoError(t, err, "a folder for the browser's profile")
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // some of its processes may still write there
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)), chromedp.UserDataDir(profile),
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox does not work for root
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*waits.Patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{ctx, listenForFailures(ctx)}
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
		})
		assert.NoError(t, err, "start the browser")
	}
	b.runActions(t, "open the page", chromedp.EmulateViewport(1280, 800), chromedp.Navigate(url), chromedp.WaitVisible("body[data-ready]"))
	return b
}

func (b *tab) runActions(t *testing.T, what string, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	assert.NoError(t, chromedp.Do(b.ctx, actions...), "%s", what)
}

// click clicks elements with the mouse, so they must be visible.
func (b *tab) click(t *testing.T, selectors ...string) {
	t.Helper()
	for _, s := range selectors {
		b.runActions(t, "click "+s, chromedp.Click(s, chromedp.NodeVisible))
	}
}

// evalScript returns the result of a script, or of the promise that it returns.
func evalScript[V any](t *testing.T, b *tab, script string) V {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](script, chromedp.EvalAwaitPromise))
	assert.NoError(t, err, "%s", script)
	return v
}

// elementText returns the text of an element.
func (b *tab) elementText(t *testing.T, selector string) string {
	t.Helper()
	return evalScript[string](t, b, `document.querySelector("`+selector+`")?.innerText ?? ""`)
}

func (b *tab) countElements(t *testing.T, selector string) int {
	t.Helper()
	return evalScript[int](t, b, `document.querySelectorAll("`+selector+`").length`)
}

// awaitText polls until an element contains a text.
func (b *tab) awaitText(t *testing.T, selector, part string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(waits.Patience); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if got = b.elementText(t, selector); strings.Contains(got, part) {
			return
		}
	}
	t.Fatalf("%s shows %q, and %q was expected", selector, got, part)
}

// checkWidth checks that nothing is wider than the page.
func (b *tab) checkWidth(t *testing.T, width int) {
	t.Helper()
	assert.Equal(t, evalScript[int](t, b, "innerWidth"), width, "width of the window")
	assert.Equal(t, evalScript[int](t, b, "document.documentElement.scrollWidth"), width, "width of the page")
	out := evalScript[string](t, b, `[...document.querySelectorAll("body *:not(.sr)")].filter(e => e.checkVisibility() &&
		(e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().left < 0)).map(e => e.outerHTML.slice(0, 80)).join()`)
	assert.Equal(t, out, "", "what stands out at %d", width)
}

// failures are errors that the page has logged or thrown.
type failures struct{ all chan string }

func listenForFailures(ctx context.Context) *failures {
	f := &failures{make(chan string, 100)}
	messages := chromedp.Console(ctx)
	go func() { // until the browser ends
		for m, err := range messages {
			if err == nil && (m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning) {
				select {
				case f.all <- m.Text:
				default: // a hundred are enough
				}
			}
		}
	}()
	return f
}

// failuresSoFar returns the failures so far.
func (f *failures) failuresSoFar() (all []string) {
	for {
		select {
		case text := <-f.all:
			all = append(all, text)
		default:
			return all
		}
	}
}
