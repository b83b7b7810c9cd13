package admin_test

import (
	"bytes"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailuresAreSeldom: what fails again and again has one line a second.
func TestFailuresAreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		var log bytes.Buffer
		p.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p.serve(t)
		for _, left := range []string{"left_out=0", "left_out=99"} {
			for range 100 {
				p.ask(t, "vera", "GET", "/records/AAAA", "", nil)
			}
			if n := strings.Count(log.String(), "a request failed"); n != 1 || !strings.Contains(log.String(), left) {
				t.Errorf("%d lines of 100 mistaken references, want one with %s: %s", n, left, log.String())
			}
			log.Reset()
			<-time.After(time.Second)
		}
	})
}

// TestRefusalsAreSeen: each caller that is refused is counted, and the log says who, from where and
// what, at most once a second, without a token and without a key.
func TestRefusalsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		ref := p.inDoubt(t).Ref
		var log bytes.Buffer
		got := map[string]int{}
		p.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		p.options.OnRefused = func(code string) { got[code]++ }
		p.serve(t)
		line := func(want ...string) {
			t.Helper()
			for _, w := range append(want, "level=WARN", "left_out=") {
				if !strings.Contains(log.String(), w) || strings.Count(log.String(), "\n") != 1 {
					t.Errorf("want one line with %q: %s", w, log.String())
				}
			}
			if strings.Contains(log.String(), "token-of") || strings.Contains(log.String(), ref) {
				t.Errorf("a secret: %s", log.String())
			}
			log.Reset()
			<-time.After(time.Second)
		}
		p.ask(t, "nobody", "GET", "/records/"+ref, "", nil)
		line("caller=\"\"", "address=127.0.0.1:50000", `action="GET /records/{ref}"`, "code=unauthenticated", "left_out=0")
		for range 3 {
			p.ask(t, "vera", "POST", "/records/"+ref+"/resolve", `{}`, nil)
		}
		line("caller=vera", `action="POST /records/{ref}/resolve"`, "code=forbidden", "left_out=0")
		p.ask(t, "rita", "POST", "/records/"+ref+"/resolve", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
		line("caller=rita", "code=not-json", "left_out=2")
		p.ask(t, "rita", "POST", "/records/"+ref+"/resolve", `{}`, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		line("code=cross-origin", "left_out=0")
		p.ask(t, "vera", "GET", "/records?namespace=bank", "", nil)
		line("caller=vera", "code=other-namespace")
		p.ask(t, "vera", "GET", "/records", "", nil)
		p.ask(t, "vera", "GET", "/records/AAAA", "", nil)
		if strings.Contains(log.String(), "refused") {
			t.Errorf("a line about what was not refused: %s", log.String())
		}
		want := map[string]int{"unauthenticated": 1, "forbidden": 3, "not-json": 1, "cross-origin": 1, "other-namespace": 1}
		if !maps.Equal(got, want) {
			t.Errorf("refused: %v, want %v", got, want)
		}
	})
}
