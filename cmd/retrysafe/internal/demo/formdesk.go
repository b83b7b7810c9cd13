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
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// formDesk takes orders for the shop with six forms. Each has one mechanism against duplicates, or
// none.
type formDesk struct {
	shop     string // the shop's address
	runID    string
	engine   *retrysafe.Engine
	issuer   *token.Issuer
	idem     *httpidem.Middleware
	workTime time.Duration // how long the shop takes for an order

	// pages counts the pages that were made, to compare orders with what people wanted. It protects
	// nothing.
	pages atomic.Int64

	mu            sync.Mutex
	round         int
	lastRequests  map[string]sentForm        // the last request of each form
	replayResults map[string]replayResult    // the outcome of its copies
	usedPages     map[string]map[string]bool // the pages of each form that were sent
}

// sentForm is a form's request as it was received.
type sentForm struct {
	contentType string
	body        []byte
}

// form is one of the six forms. The last three are protected.
type form struct {
	// its name in addresses and in the texts
	way      string
	hidden   func(*formDesk, *http.Request) (template.HTML, error) // a field of the form
	script   string                                                // on its page
	redirect bool                                                  // after the POST
	guard    func(*formDesk) *httpidem.Middleware
}

func keyGuard(d *formDesk) *httpidem.Middleware { return d.idem }

func tokenGuard(d *formDesk) *httpidem.Middleware {
	return d.idem.With(func(o *httpidem.Options) {
		o.Key, o.KeySource.Form, o.KeySource.Tokens = httpidem.Token, false, d.issuer
	})
}

func noField(*formDesk, *http.Request) (template.HTML, error) { return "", nil }

func keyField(*formDesk, *http.Request) (template.HTML, error) { return forms.KeyField(), nil }

func tokenField(d *formDesk, r *http.Request) (template.HTML, error) {
	return (&forms.Options{Issuer: d.issuer, Tenant: httpidem.Global}).TokenField(r)
}

var sixForms = []form{
	{way: "plain", hidden: noField},
	{way: "button", hidden: noField, script: "/button.js"},
	{way: "redirect", hidden: noField, redirect: true},
	{way: "token", hidden: tokenField, guard: tokenGuard},
	{way: "key", hidden: keyField, guard: keyGuard},
	{way: "all", hidden: keyField, script: "/button.js", redirect: true, guard: keyGuard},
}

func newFormDesk(shop, run string) *formDesk {
	e := retrysafe.New(memstore.New(nil), nil)
	d := &formDesk{
		shop: shop, runID: run, engine: e, issuer: token.NewIssuer(e, nil), workTime: 700 * time.Millisecond,
		lastRequests: map[string]sentForm{}, replayResults: map[string]replayResult{}, usedPages: map[string]map[string]bool{},
	}
	d.idem = httpidem.New(e, &httpidem.Options{
		Tenant: httpidem.Global,
		Key:    httpidem.Required, KeySource: httpidem.KeySource{Form: true},
		ErrorHandler: forms.ErrorHandler(nil),
		Policy:       retrysafe.Policy{Wait: time.Minute},
	})
	return d
}

func (d *formDesk) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = d.engine.Shutdown(ctx) // its records end with the process
}

// addRoutes registers the pages of the forms and their targets, below /forms/.
func (d *formDesk) addRoutes(mux *http.ServeMux) {
	for _, f := range sixForms {
		path := "/forms/" + f.way
		mux.Handle("GET "+path, allowFraming(func(w http.ResponseWriter, r *http.Request) {
			hidden, err := f.hidden(d, r)
			if err != nil {
				refuseRequest(w, r, http.StatusServiceUnavailable, "form.not-made", "error", err.Error())
				return
			}
			writeForm(w, languageOf(r), path, f, hidden, d.pages.Add(1))
		}))
		mux.Handle("GET "+path+"/{order}", allowFraming(func(w http.ResponseWriter, r *http.Request) {
			writeThanks(w, languageOf(r), path, r.PathValue("order"))
		}))
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.placeOrder(w, r, f) })
		if f.guard != nil {
			h = f.guard(d).Handler(h)
		}
		mux.Handle("POST "+path, allowFraming(func(w http.ResponseWriter, r *http.Request) { d.keepRequest(w, r, f.way, h) }))
	}
}

// keepRequest stores a request, so that the attack can send it again.
func (d *formDesk) keepRequest(w http.ResponseWriter, r *http.Request, way string, next http.Handler) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil {
		refuseRequest(w, r, http.StatusBadRequest, "form.not-whole")
		return
	}
	fields, _ := url.ParseQuery(string(body)) // a body that is not a form has no page either
	d.mu.Lock()
	d.lastRequests[way] = sentForm{r.Header.Get("Content-Type"), body}
	if d.usedPages[way] == nil {
		d.usedPages[way] = map[string]bool{}
	}
	d.usedPages[way][fields.Get("page")] = true
	d.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
}

// placeOrder passes an order to the shop.
func (d *formDesk) placeOrder(w http.ResponseWriter, r *http.Request, f form) {
	req := request{Scene: d.sceneOf(f.way), Item: "teapot", WorkMS: int(d.workTime.Milliseconds())}
	a, err := newClient(d.shop, shopper).post(context.WithoutCancel(r.Context()), "/orders", "", req)
	var made struct{ Order int64 }
	if err != nil || json.Unmarshal([]byte(a.body), &made) != nil || made.Order == 0 {
		refuseRequest(w, r, http.StatusBadGateway, "form.no-answer")
		return
	}
	path, lang := "/forms/"+f.way, languageOf(r)
	if f.redirect {
		forms.SeeOther(w, r, fmt.Sprint(path, "/", made.Order, "?lang=", lang.short()))
		return
	}
	writeThanks(w, lang, path, fmt.Sprint(made.Order))
}

// sceneOf returns the scene under which the shop keeps the orders of a form.
func (d *formDesk) sceneOf(way string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("form-%s-%d-%s", d.runID, d.round, way)
}

// resetCounts resets the counts.
func (d *formDesk) resetCounts() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round++
	clear(d.lastRequests)
	clear(d.replayResults)
	clear(d.usedPages)
}
