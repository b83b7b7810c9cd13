package browsertest_test

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/browser"
	"github.com/retrysafe/retrysafe/httpidem/forms"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// policy is what a careful site allows: its own scripts and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src *; form-action 'self'; base-uri 'none'"

// shop accepts orders by a form, in several ways.
type shop struct {
	t      *testing.T
	url    string
	idem   *httpidem.Middleware
	issuer *token.Issuer

	mu       sync.Mutex
	orders   int
	requests []request
	lost     int           // how many of the next answers are lost
	gate     chan struct{} // handlers wait for it after they have acted; nil: they do not wait
	came     *sync.Cond
}

// request is a received POST.
type request struct {
	path, key string
	form      url.Values
}

// way is one mechanism against duplicates, alone.
type way struct {
	hidden string // in the form
	script string // of the page
	prg    bool   // the answer is a redirect
	store  string // Cache-Control in place of the one of package forms
	guard  func(*shop) *httpidem.Middleware
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{"retrysafeKey": noField, "retrysafeToken": noField}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Order</title>
<script type="module" src="{{.Script}}"></script>
<form method="post" action="{{.Action}}" id="form">{{template "hidden" .}}
<label>Item <input name="item" value="tea" id="item"></label> <button name="how" value="button" id="go">Order</button>
</form>
</html>{{define "hidden"}}{{end}}`))

func noField(...any) string { return "" }

func bySelf(s *shop) *httpidem.Middleware { return s.idem }

func byToken(s *shop) *httpidem.Middleware {
	return s.idem.With(func(o *httpidem.Options) {
		o.Key, o.KeySource.Form, o.KeySource.Tokens = httpidem.Token, false, s.issuer
	})
}

const byFetch = `import { fetchOnce } from "/retrysafe.js";
const form = document.getElementById("form");
form.addEventListener("submit", async (event) => {
	event.preventDefault();
	const answer = await fetchOnce("order", form.action, { body: new URLSearchParams(new FormData(form, event.submitter)) }, { hold: 60000 });
	document.body.append(Object.assign(document.createElement("p"), { id: "done", textContent: await answer.text() }));
});
document.body.dataset.ready = "yes";`

const byButton = `import { enhance } from "/retrysafe.js";
enhance(document.getElementById("form"));
document.body.dataset.ready = "yes";`

var ways = map[string]way{
	"plain":    {},
	"button":   {script: byButton},
	"prg":      {prg: true},
	"token":    {hidden: `{{retrysafeToken .Request}}`, guard: byToken},
	"key":      {hidden: `{{retrysafeKey}}`, guard: bySelf},
	"prg+key":  {hidden: `{{retrysafeKey}}`, prg: true, guard: bySelf},
	"fetch":    {script: byFetch, guard: bySelf},
	"no-store": {hidden: `{{retrysafeKey}}`, guard: bySelf, store: "no-store"},
	"combined": {hidden: `{{retrysafeKey}}`, script: byButton, prg: true, guard: bySelf},
}

func openShop(t *testing.T) *shop {
	t.Helper()
	return openShopWith(t, false)
}

// openShopWith opens a shop. With keepAlive the browser may reuse connections; Chromium itself then
// retries a request that was lost on one.
func openShopWith(t *testing.T, keepAlive bool) *shop {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!"), Sweep: -1})
	s := &shop{t: t, issuer: token.NewIssuer(e, &token.Options{Tenant: httpidem.Global})}
	s.came = sync.NewCond(&s.mu)
	s.idem = httpidem.New(e, &httpidem.Options{
		Tenant:       httpidem.Global,
		KeySource:    httpidem.KeySource{Form: true},
		ErrorHandler: forms.ErrorHandler(nil),
		Policy:       retrysafe.Policy{Wait: patience},
	})
	mux := http.NewServeMux()
	mux.Handle("GET /retrysafe.js", browser.Handler())
	mux.Handle("POST /.retrysafe/tokens", s.issuer)
	mux.HandleFunc("GET /orders/{n}", func(w http.ResponseWriter, r *http.Request) { writeDone(w, r.PathValue("n")) })
	mux.HandleFunc("POST /file", answerFile)
	for name, how := range ways {
		s.addRoute(mux, "/"+name, how)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		s.noteRequest(r)
		if r.Method == http.MethodPost && s.losesAnswer() {
			mux.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	server.Config.SetKeepAlivesEnabled(keepAlive)
	server.Start()
	s.url = server.URL
	t.Cleanup(func() {
		s.openGate()
		server.Close()
		assert.NoError(t, e.Shutdown(context.Background()), "shutdown")
	})
	return s
}

func (s *shop) addRoute(mux *http.ServeMux, path string, how way) {
	form := template.Must(template.Must(page.Clone()).Funcs(forms.Funcs(&forms.Options{Issuer: s.issuer, Tenant: httpidem.Global})).
		Parse(`{{define "hidden"}}` + how.hidden + `{{end}}`))
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		data := struct {
			Request        *http.Request
			Script, Action string
		}{r, path + ".js", path + "/orders"}
		rec := httptest.NewRecorder()
		if err := forms.Render(rec, 200, form, "page", data); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		maps.Copy(w.Header(), rec.Header())
		if how.store != "" {
			w.Header().Set("Cache-Control", how.store)
		}
		_, _ = rec.Body.WriteTo(w)
	})
	mux.HandleFunc("GET "+path+".js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, how.script)
	})
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.makeOrder()
		if how.prg {
			forms.SeeOther(w, r, "/orders/"+n)
			return
		}
		writeDone(w, n)
	})
	if how.guard != nil {
		h = how.guard(s).Handler(h)
	}
	mux.Handle("POST "+path+"/orders", h)
}

func writeDone(w http.ResponseWriter, n string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, `<!doctype html><title>Done</title><p id="done">Order %s</p>`, n)
}

// makeOrder makes an order, and then waits at the gate if there is one.
func (s *shop) makeOrder() string {
	s.mu.Lock()
	s.orders++
	n, gate := s.orders, s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return fmt.Sprint(n)
}

func (s *shop) noteRequest(r *http.Request) {
	if r.Method != http.MethodPost {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request{r.URL.Path, r.Header.Get("Idempotency-Key"), form})
	s.came.Broadcast()
}

// losesAnswer reports whether the next answer is lost.
func (s *shop) losesAnswer() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost--
	return s.lost >= 0
}

// closeGate makes handlers wait until release.
func (s *shop) closeGate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

func (s *shop) openGate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

// awaitRequests waits for n requests in all.
func (s *shop) awaitRequests(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := time.Now().Add(patience); len(s.requests) < n; s.came.Wait() {
		if time.Now().After(end) {
			break
		}
		stop := time.AfterFunc(time.Until(end)+time.Second, s.came.Broadcast)
		defer stop.Stop()
	}
	if len(s.requests) < n {
		s.t.Fatalf("%d requests have arrived, %d were expected", len(s.requests), n)
	}
}

// resetCounts resets the counts.
func (s *shop) resetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders, s.requests = 0, nil
}

func (s *shop) ordersMade() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders
}

// formBody returns the body of a request.
func (s *shop) formBody(n int) url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[n].form
}

// requestKeys returns the keys of the requests, in the order of arrival.
func (s *shop) requestKeys() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		all = append(all, r.key)
	}
	return all
}
