package browsertest_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// command is the retrysafe program, built once.
var command = sync.OnceValues(func() (string, error) {
	program := filepath.Join(work, "retrysafe")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "retrysafe")
	build.Env = append(os.Environ(), "GOFLAGS="+strings.ReplaceAll(os.Getenv("GOFLAGS"), "-race", ""))
	build.Stderr = os.Stderr
	return program, build.Run()
})

// runCommand starts the command, and returns the line with which it says that it listens.
func runCommand(t *testing.T, listens string, args ...string) (process *exec.Cmd, line string) {
	t.Helper()
	program, err := command()
	assert.NoError(t, err, "build the command")
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = append(os.Environ(), "RETRYSAFE_SECRET=that of the gateway of this test")
	c.Stderr = t.Output()
	out, err := c.StdoutPipe()
	assert.NoError(t, err, "pipe")
	assert.NoError(t, c.Start(), "start")
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), listens) {
			go func() { _, _ = io.Copy(t.Output(), out) }()
			return c, lines.Text()
		}
	}
	t.Fatalf("retrysafe %v ended", args)
	return nil, ""
}

// makeToken makes a token by the command. It returns the token, and the line for the file.
func makeToken(t *testing.T, name, roles string) (token, line string) {
	t.Helper()
	program, err := command()
	assert.NoError(t, err, "build the command")
	c := exec.CommandContext(t.Context(), program, "console", "token", name, "--roles", roles)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	assert.NoError(t, err, "token: %s", said.String())
	return strings.Split(said.String(), "\n")[1], string(out)
}

// freeAddr returns an address on which nothing listens, for a gateway that is started twice.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	return "127.0.0.1:" + port
}

// payThrough sends the payment, and returns the status, the body, and whether it is a replay.
func payThrough(t *testing.T, addr string) (status int, body, replayed string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/payments", strings.NewReader(`{"cents":4200}`))
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", "payment-of-the-story")
	r.SetBasicAuth("ann", "demo")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error(), ""
	}
	return answer.StatusCode, string(text), answer.Header.Get("Idempotency-Replayed")
}

// TestConsoleStory: a gateway is killed during a payment. The doubt is found in the console,
// explained, and resolved with the answer that the bank knows. The client's retry gets that answer,
// and the service has run once. One who may only view has no button, and the API refuses.
func TestConsoleStory(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	entered, hold := make(chan struct{}, 1), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		effects.Add(1)
		entered <- struct{}{}
		<-hold
	}))
	defer service.Close()
	defer close(hold)
	dir, listen, console := t.TempDir(), freeAddr(t), freeAddr(t)
	viewer, line1 := makeToken(t, "vera", "view")
	resolver, line2 := makeToken(t, "rita", "view,resolve")
	tokens, file := filepath.Join(dir, "tokens"), filepath.Join(dir, "gateway.yaml")
	assert.NoError(t, os.WriteFile(tokens, []byte(line1+line2), 0o600), "tokens")
	assert.NoError(t, os.WriteFile(file, []byte("upstream: "+service.URL+"\nlisten: "+listen+"\nadmin: "+console+
		"\nstore: sqlite:"+filepath.Join(dir, "r.db")+"\noperators: {tokens: "+tokens+"}\ndefaults: {lease: 5s}\n"), 0o600), "configuration")

	gateway, _ := runCommand(t, "://"+listen, "gateway", "--config", file)
	go payThrough(t, listen)
	<-entered
	assert.NoError(t, gateway.Process.Kill(), "kill -9")
	_ = gateway.Wait()
	runCommand(t, "://"+listen, "gateway", "--config", file)
	for end := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		// until the lease has ended
		_, body, _ := payThrough(t, listen)
		if strings.Contains(body, `"code":"outcome-unknown"`) {
			break
		}
		assert.True(t, time.Now().Before(end), "the lease does not end: %s", body)
	}

	b := openConsole(t, "http://"+console+"/#token="+viewer, "en")
	b.awaitText(".who", "vera: view")
	b.awaitText(".total", "1in doubt")
	b.awaitText(".advice", "died, or was cut off from the store")
	record := evalScript[string](b, `document.querySelector("[data-row]").getAttribute("href")`)
	b.openView(record)
	b.awaitText("#resolve", "it needs the role resolve")
	assert.Equal(t, evalScript[int](b, `document.querySelectorAll("main form").length`), 0, "forms for one who may only view")
	assert.Equal(t, evalScript[int](b, `fetch("api/v1`+strings.Replace(record, "#/record", "/records", 1)+`/resolve", { method: "POST", body: "{}",
		headers: { "Content-Type": "application/json", Authorization: "Bearer `+viewer+`" } }).then((r) => r.status)`), 403, "the API")

	b.openView("#token=" + resolver)
	b.awaitText(".who", "rita: view, resolve")
	// a customer calls: the record is found by her name and the key
	b.openView("#/search")
	b.focusOn("#search-list [name=user]")
	b.pressKeys("ann\tpayment-of-the-story\r")
	b.awaitText(".found", "Shown: 1. That is all.")
	assert.Equal(t, evalScript[string](b, `document.querySelector(".found [data-row]").getAttribute("href")`), record, "the record of ann")
	b.openView(record)
	b.awaitText(".explain", "Look for the effect")
	b.runActions("size", chromedp.EmulateViewport(1280, 800))
	b.pressKeys("e ")
	b.awaitScript(`document.querySelector("[name=status]")?.value`, "201")
	b.pressKeys("\t\t\t\t{\"payment\":4711}\tthe bank's list has payment 4711")
	b.takeShot("story-record")
	b.pressKeys("\t\r")
	b.awaitText(".notice", "Resolved")
	status, body, replayed := payThrough(t, listen)
	assert.Equal(t, status, 201, "status of the retry")
	assert.Equal(t, body, `{"payment":4711}`, "body of the retry")
	assert.Equal(t, replayed, "true", "replayed")
	assert.Equal(t, effects.Load(), int64(1), "payments at the service")
	b.openView("#/audit")
	b.awaitText("main .reason", "the bank's list has payment 4711")
	b.openView("#/traffic")
	b.awaitText("main .rows", "replayed")
	b.takeShot("story-traffic")
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleOfDemo: a person kills the gateway of the demonstration during a payment, follows the
// link to its console, and resolves the doubt there. The next press gets that answer.
func TestConsoleOfDemo(t *testing.T) {
	t.Parallel()
	_, line := runCommand(t, "Open http://", "demo", "--listen", "127.0.0.1:0")
	_, rest, _ := strings.Cut(line, "Open ")
	url, _, _ := strings.Cut(rest, " ")
	b := openTab(t, url)
	b.awaitScript(`document.getElementById("killed")?.disabled`, "false")
	evalScript[bool](b, `(document.getElementById("killed").click(), true)`)
	b.awaitScript(`document.getElementById("start").hidden`, "false")
	evalScript[bool](b, `(document.getElementById("start").click(), true)`)
	b.awaitScript(`document.getElementById("doubt").hidden`, "false")
	b.awaitScript(`document.getElementById("in-console").hidden`, "false")
	b.takeShot("demo")
	desk := b.openSecondTab(evalScript[string](b, `document.getElementById("console").href`))
	desk.awaitText(".who", "you: ")
	desk.awaitText("main", "POST /payments")
	desk.openView(evalScript[string](desk, `document.querySelector("[data-row]").getAttribute("href")`))
	evalScript[bool](desk, `(document.querySelector("[value=done]").click(), document.querySelector("[name=reason]").value = "the shop's table has it", document.querySelector("#resolve form").requestSubmit(), true)`)
	desk.awaitText(".notice", "Resolved")
	evalScript[bool](b, `(document.getElementById("pay").click(), true)`)
	b.awaitText("#with .answers", "This was done before")
}
