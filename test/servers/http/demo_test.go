package http_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// theCommand is built once for all tests, without the race detector: linking it takes longer than
// most of them.
var theCommand = servers.Shared[string]{Start: func(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-command")
	assert.NoError(tb, err, "a folder")
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "retrysafe")
	build := exec.CommandContext(tb.Context(), "go", "build", "-buildvcs=false", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "..", "cmd", "retrysafe")
	build.Env = append(os.Environ(), "GOFLAGS="+strings.ReplaceAll(os.Getenv("GOFLAGS"), "-race", ""))
	out, err := build.CombinedOutput()
	assert.NoError(tb, err, "build the command (%s)", out)
	return program
}}

// startDemo starts the demonstration with the real command, and returns the address of the page.
func startDemo(t *testing.T) string {
	t.Helper()
	demo := exec.CommandContext(t.Context(), theCommand.Get(t), "demo", "--listen", "127.0.0.1:0")
	// It has files to remove.
	demo.Cancel = func() error { return demo.Process.Signal(syscall.SIGTERM) }
	stdout, err := demo.StdoutPipe()
	assert.NoError(t, err, "pipe")
	assert.NoError(t, demo.Start(), "start the demonstration")
	t.Cleanup(func() { _ = demo.Wait() })
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "Open "); ok {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			url, _, _ := strings.Cut(rest, " ")
			return url
		}
	}
	t.Fatal("the demonstration did not say where its page is")
	return ""
}

// inShop runs a request as curl, and returns how many effects it has in the shop's own table. Both
// command lines name their scene; the unprotected one also names the shop.
func inShop(t *testing.T, shop, curl string) int {
	t.Helper()
	_, addr, _ := strings.Cut(shop, "http://")
	addr, _, _ = strings.Cut(addr, "/")
	_, scene, _ := strings.Cut(curl, `"scene":"`)
	scene, _, _ = strings.Cut(scene, `"`)
	resp, err := testclient.HTTP.Get("http://" + addr + "/payments?scene=" + scene)
	assert.NoError(t, err, "ask the shop")
	defer resp.Body.Close()
	var all []json.RawMessage
	assert.NoError(t, json.NewDecoder(resp.Body).Decode(&all), "the shop's payments")
	return len(all)
}

// TestDemoPage does in a real browser what a new user does.
func TestDemoPage(t *testing.T) {
	t.Parallel()
	b := openTab(t, startDemo(t))
	const without, with = "#without .verdict", "#with .verdict"
	b.awaitText(t, without, "Not charged yet")
	b.click(t, "#pay")
	b.awaitText(t, "#with .answer", "Paid")
	b.click(t, "#pay", "#pay", "#pay", "#pay")
	b.awaitText(t, without, "Charged 5×")
	b.awaitText(t, without, "$168.00 too much")
	b.awaitText(t, with, "Charged once")
	for _, n := range []string{"2", "3", "4", "5"} {
		b.awaitText(t, "#with [data-n='"+n+"']", "The first answer again")
	}
	assert.Equal(t, b.countElements(t, "#with .badge"), 4, "replayed, with protection")
	assert.Equal(t, b.countElements(t, "#without .badge"), 0, "replayed, without it")
	assert.Equal(t, b.countElements(t, "#without .receipt"), 5, "payments without protection")
	b.checkWidth(t, 1280)

	shop, curl := copyByButton(t, b, "#without .curl"), copyByButton(t, b, "#with .curl")
	assert.Equal(t, inShop(t, shop, shop), 5, "in the shop, without protection")
	assert.Equal(t, inShop(t, shop, curl), 1, "in the shop, with it")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", curl).CombinedOutput()
	assert.NoError(t, err, "%s: %s", curl, out)
	_, id, _ := strings.Cut(b.elementText(t, "#with .receipt"), "#")
	id, _, _ = strings.Cut(id, " ")
	assert.Contains(t, string(out), `{"payment":`+id+`}`, "what the shell is told")
	assert.Contains(t, strings.ToLower(string(out)), "idempotency-replayed: true", "what the shell is told")
	byHand(t, b, curl)

	b.click(t, "#kill")
	b.awaitText(t, "#gateway", "down")
	b.click(t, "#pay")
	b.awaitText(t, "#with .answer:first-child", "nothing was done")
	b.awaitText(t, without, "Charged 6×")
	b.click(t, "#start")
	b.awaitText(t, "#gateway", "runs")
	b.runActions(t, "pay by keyboard", chromedp.Focus("#pay"), chromedp.KeyEvent("\r"))
	b.awaitText(t, without, "Charged 7×")
	b.awaitText(t, "#with .answer:first-child", "replayed")
	b.awaitText(t, with, "Charged once")
	assert.Equal(t, inShop(t, shop, curl), 1, "in the shop, after all this")
	assert.Equal(t, b.failures.failuresSoFar(), nil, "errors in the console")
}

// copyByButton clicks a copy button, and returns what is on the clipboard.
func copyByButton(t *testing.T, b *tab, button string) string {
	t.Helper()
	b.click(t, button)
	b.awaitText(t, button, "Copied")
	return evalScript[string](t, b, "navigator.clipboard.readText()")
}

// byHand checks what happens without a clipboard: the page shows the text, selected.
func byHand(t *testing.T, b *tab, want string) {
	t.Helper()
	evalScript[bool](t, b, `Object.defineProperty(navigator, "clipboard", { value: undefined }), true`)
	b.click(t, "#with .curl")
	b.awaitText(t, "#by-hand", "Copy it by hand")
	assert.Equal(t, evalScript[string](t, b, "getSelection().toString()"), want, "the text that is selected")
	b.runActions(t, "close the dialog", chromedp.KeyEvent("\x1b"), chromedp.WaitNotVisible("#by-hand"))
}

// TestDemoPageOnAPhone goes on to the longest page: a payment in doubt.
func TestDemoPageOnAPhone(t *testing.T) {
	t.Parallel()
	b := openTab(t, startDemo(t))
	b.runActions(t, "a phone", chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile), chromedp.EmulateViewport(390, 844))
	b.checkWidth(t, 390)
	b.click(t, "[data-times='10']")
	b.awaitText(t, "#tally-without", "10×")
	b.awaitText(t, "#tally-with", "once")
	b.click(t, "#slow")
	b.click(t, "[data-how=lost]")
	b.awaitText(t, "#without .answer:first-child", "lost")
	b.checkWidth(t, 390)
	b.click(t, "#killed")
	b.awaitText(t, "#number", "2")
	b.awaitText(t, "#with .answer:first-child", "broke")
	b.click(t, "#start")
	b.awaitText(t, "#doubt", "finds payment")
	b.awaitText(t, "#list", "keys --store sqlite:")
	b.awaitText(t, "#resolve", "--outcome done")
	b.checkWidth(t, 390)
	for _, y := range []string{"0", "document.body.scrollHeight"} {
		reachable := evalScript[bool](t, b, `scrollTo({ top: `+y+`, behavior: "instant" }), (() => {
			const r = document.getElementById("pay").getBoundingClientRect();
			return document.elementFromPoint((r.left + r.right) / 2, (r.top + r.bottom) / 2)?.id === "pay" && r.height >= 44;
		})()`)
		assert.True(t, reachable, "Pay is under the thumb at %s", y)
	}
	b.click(t, "#pay")
	b.awaitText(t, "#with .answer:first-child", "outcome-unknown")
	b.awaitText(t, "#tally-with", "once")
	assert.Equal(t, b.failures.failuresSoFar(), nil, "errors in the console")
}
