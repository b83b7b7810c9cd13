package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/forms"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/token"
)

// desk takes orders for the shop with six forms. Each has one mechanism against duplicates, or
// none.
type desk struct {
	shop   string // the shop's address
	run    string
	engine *retrysafe.Engine
	issuer *token.Issuer
	idem   *httpidem.Middleware
	slow   time.Duration // how long the shop takes for an order

	// pages counts the pages that were made, to compare orders with what people wanted. It protects
	// nothing.
	pages atomic.Int64

	mu    sync.Mutex
	round int
	last  map[string]sent            // the last request of each form
	told  map[string]replay          // the outcome of its copies
	used  map[string]map[string]bool // the pages of each form that were sent
}

// sent is a form's request as it was received.
type sent struct {
	contentType string
	body        []byte
}

// form is one of the six forms. The last three are protected.
type form struct {
	// its name in addresses and in the texts
	way      string
	hidden   func(*desk, *http.Request) (template.HTML, error) // a field of the form
	script   string                                            // on its page
	redirect bool                                              // after the POST
	guard    func(*desk) *httpidem.Middleware
}

func byKey(d *desk) *httpidem.Middleware { return d.idem }

func byToken(d *desk) *httpidem.Middleware {
	return d.idem.With(func(o *httpidem.Options) {
		o.Key, o.KeySource.Form, o.KeySource.Tokens = httpidem.Token, false, d.issuer
	})
}

func noField(*desk, *http.Request) (template.HTML, error) { return "", nil }

func keyField(*desk, *http.Request) (template.HTML, error) { return forms.KeyField(), nil }

func tokenField(d *desk, r *http.Request) (template.HTML, error) {
	return (&forms.Options{Issuer: d.issuer, Tenant: httpidem.Global}).TokenField(r)
}

var sixForms = []form{
	{way: "plain", hidden: noField},
	{way: "button", hidden: noField, script: "/button.js"},
	{way: "redirect", hidden: noField, redirect: true},
	{way: "token", hidden: tokenField, guard: byToken},
	{way: "key", hidden: keyField, guard: byKey},
	{way: "all", hidden: keyField, script: "/button.js", redirect: true, guard: byKey},
}

func newDesk(shop, run string) *desk {
	e := retrysafe.New(memstore.New(nil), nil)
	d := &desk{
		shop: shop, run: run, engine: e, issuer: token.NewIssuer(e, nil), slow: 700 * time.Millisecond,
		last: map[string]sent{}, told: map[string]replay{}, used: map[string]map[string]bool{},
	}
	d.idem = httpidem.New(e, &httpidem.Options{
		Tenant: httpidem.Global,
		Key:    httpidem.Required, KeySource: httpidem.KeySource{Form: true},
		ErrorHandler: forms.ErrorHandler(nil),
		Policy:       retrysafe.Policy{Wait: time.Minute},
	})
	return d
}

func (d *desk) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = d.engine.Shutdown(ctx) // its records end with the process
}

// routes registers the pages of the forms and their targets, below /forms/.
func (d *desk) routes(mux *http.ServeMux) {
	for _, f := range sixForms {
		path := "/forms/" + f.way
		mux.Handle("GET "+path, framed(func(w http.ResponseWriter, r *http.Request) {
			hidden, err := f.hidden(d, r)
			if err != nil {
				refuse(w, r, http.StatusServiceUnavailable, "form.not-made", "error", err.Error())
				return
			}
			writeForm(w, languageOf(r), path, f, hidden, d.pages.Add(1))
		}))
		mux.Handle("GET "+path+"/{order}", framed(func(w http.ResponseWriter, r *http.Request) {
			thanks(w, languageOf(r), path, r.PathValue("order"))
		}))
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.take(w, r, f) })
		if f.guard != nil {
			h = f.guard(d).Handler(h)
		}
		mux.Handle("POST "+path, framed(func(w http.ResponseWriter, r *http.Request) { d.note(w, r, f.way, h) }))
	}
}

// note stores a request, so that the attack can send it again.
func (d *desk) note(w http.ResponseWriter, r *http.Request, way string, next http.Handler) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil {
		refuse(w, r, http.StatusBadRequest, "form.not-whole")
		return
	}
	fields, _ := url.ParseQuery(string(body)) // a body that is not a form has no page either
	d.mu.Lock()
	d.last[way] = sent{r.Header.Get("Content-Type"), body}
	if d.used[way] == nil {
		d.used[way] = map[string]bool{}
	}
	d.used[way][fields.Get("page")] = true
	d.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
}

// take passes an order to the shop.
func (d *desk) take(w http.ResponseWriter, r *http.Request, f form) {
	req := request{Scene: d.scene(f.way), Item: "teapot", WorkMS: int(d.slow.Milliseconds())}
	a, err := newClient(d.shop, shopper).post(context.WithoutCancel(r.Context()), "/orders", "", req)
	var made struct{ Order int64 }
	if err != nil || json.Unmarshal([]byte(a.body), &made) != nil || made.Order == 0 {
		refuse(w, r, http.StatusBadGateway, "form.no-answer")
		return
	}
	path, lang := "/forms/"+f.way, languageOf(r)
	if f.redirect {
		forms.SeeOther(w, r, fmt.Sprint(path, "/", made.Order, "?lang=", lang.short()))
		return
	}
	thanks(w, lang, path, fmt.Sprint(made.Order))
}

// scene returns the scene under which the shop keeps the orders of a form.
func (d *desk) scene(way string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("form-%s-%d-%s", d.run, d.round, way)
}

// renew resets the counts.
func (d *desk) renew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round++
	clear(d.last)
	clear(d.told)
	clear(d.used)
}
