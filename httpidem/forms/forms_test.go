package forms_test

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/forms"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func ann(*http.Request) (string, error) { return "ann", nil }

// desk accepts orders by forms.
type desk struct {
	mux    *http.ServeMux
	idem   *httpidem.Middleware
	funcs  template.FuncMap
	issuer *token.Issuer
	orders int
}

func newDesk(t *testing.T, change func(*httpidem.Options)) *desk {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!"), Sweep: -1})
	t.Cleanup(func() { assert.NoError(t, e.Shutdown(context.Background()), "shutdown") })
	d := &desk{mux: http.NewServeMux(), issuer: token.NewIssuer(e, nil)}
	o := &httpidem.Options{
		Tenant: ann,
		Key:    httpidem.Required, KeySource: httpidem.KeySource{Form: true, Tokens: d.issuer},
		ErrorHandler: forms.ErrorHandler(nil),
		Policy:       retrysafe.Policy{Wait: 5 * time.Second},
	}
	if change != nil {
		change(o)
	}
	d.idem = httpidem.New(e, o)
	d.funcs = forms.Funcs(&forms.Options{Issuer: d.issuer, Tenant: ann})
	d.mux.Handle("POST /orders", d.idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.orders++
		forms.SeeOther(w, r, fmt.Sprintf("/orders/%d", d.orders))
	})))
	return d
}

// field returns the value of the one hidden field of a page that a template makes.
func (d *desk) field(t *testing.T, text string) string {
	t.Helper()
	w := httptest.NewRecorder()
	page := template.Must(template.New("form").Funcs(d.funcs).Parse(text))
	data := struct{ Request *http.Request }{httptest.NewRequest("GET", "/", nil)}
	assert.NoError(t, forms.Render(w, 200, page, "", data), "render")
	m := regexp.MustCompile(`^<form><input type="hidden" name="idempotency_key" value="([\w-]{22,})" autocomplete="off"></form>$`).FindStringSubmatch(w.Body.String())
	assert.Equal(t, len(m), 2, "hidden fields in %s", w.Body)
	assert.Equal(t, w.Header().Get("Cache-Control"), "private, no-cache", "cache")
	assert.Equal(t, w.Header().Get("Content-Type"), "text/html; charset=utf-8", "type")
	return m[1]
}

func (d *desk) post(fields url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/orders", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	w := httptest.NewRecorder()
	d.mux.ServeHTTP(w, r)
	return w
}

// TestFormRepeated tests that every duplicate from one page leads to one order, and that a new page
// is another order.
func TestFormRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		page   string
		change func(*httpidem.Options)
	}{
		"key":   {`<form>{{retrysafeKey}}</form>`, nil},
		"token": {`<form>{{retrysafeToken .Request}}</form>`, func(o *httpidem.Options) { o.Key, o.KeySource.Form = httpidem.Token, false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, c.change)
			first, second := d.field(t, c.page), d.field(t, c.page)
			assert.NotEqual(t, first, second, "the keys of two pages")
			for n := range 3 {
				w := d.post(url.Values{"idempotency_key": {first}, "item": {"tea"}})
				assert.Equal(t, w.Code, 303, "answer %d (%s)", n, w.Body)
				assert.Equal(t, w.Header().Get("Location"), "/orders/1", "location %d", n)
				assert.Equal(t, w.Header().Get("Cache-Control"), "no-store", "cache of the redirect")
				assert.Equal(t, w.Header().Get("Idempotency-Replayed") == "true", n > 0, "replayed %d", n)
			}
			assert.Equal(t, d.post(url.Values{"idempotency_key": {second}, "item": {"tea"}}).Header().Get("Location"), "/orders/2", "another page")
			assert.Equal(t, d.orders, 2, "orders")
		})
	}
}

// TestFormChanged tests that other entries with the key of a page are refused, and that the user is
// told so.
func TestFormChanged(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	key := d.field(t, `<form>{{retrysafeKey}}</form>`)
	assert.Equal(t, d.post(url.Values{"idempotency_key": {key}, "item": {"tea"}}).Code, 303, "first")
	w := d.post(url.Values{"idempotency_key": {key}, "item": {"<b>cake"}})
	assert.Equal(t, w.Code, 422, "changed")
	assert.Equal(t, w.Header().Get("Content-Type"), "text/html; charset=utf-8", "type")
	assert.Contains(t, w.Body.String(), "open the form again", "page")
	assert.True(t, !strings.Contains(w.Body.String(), "cake") && !strings.Contains(w.Body.String(), key), "the page tells nothing of the form")
	assert.Equal(t, d.orders, 1, "orders")
}

type issuer func(tenant string) (string, error)

func (f issuer) Issue(_ context.Context, tenant string) (string, error) { return f(tenant) }

var errAway = errors.New("the store is away")

// TestTokenNotIssued tests that no partial page is sent.
func TestTokenNotIssued(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	nobody := func(*http.Request) (string, error) { return "", errAway }
	away := issuer(func(string) (string, error) { return "", errAway })
	for name, c := range map[string]struct {
		o    *forms.Options
		r    *http.Request
		want string
	}{
		"no options": {nil, r, "needs Options.Issuer"},
		"no tenant":  {&forms.Options{Issuer: away}, r, "needs Options.Issuer and Options.Tenant"},
		"no request": {&forms.Options{Issuer: away, Tenant: ann}, nil, "needs the request"},
		"nobody":     {&forms.Options{Issuer: away, Tenant: nobody}, r, "no token without a tenant"},
		"away":       {&forms.Options{Issuer: away, Tenant: ann}, r, "no token was issued"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := template.Must(template.New("").Funcs(forms.Funcs(c.o)).Parse(`half a page {{retrysafeToken .}}`))
			w := httptest.NewRecorder()
			err := forms.Render(w, 200, page, "", c.r)
			assert.True(t, err != nil && strings.Contains(err.Error(), c.want), "%q is in %v", c.want, err)
			assert.Equal(t, name == "nobody" || name == "away", errors.Is(err, errAway), "wraps the cause")
			assert.Equal(t, w.Body.Len()+len(w.Header()), 0, "what was written")
		})
	}
}

// TestTokenIsEscaped tests that the value is escaped: an external issuer may return anything.
func TestTokenIsEscaped(t *testing.T) {
	t.Parallel()
	funcs := forms.Funcs(&forms.Options{Tenant: ann, Issuer: issuer(func(tenant string) (string, error) { return `"><script>` + tenant, nil })})
	page := template.Must(template.New("").Parse(`{{define "a"}}{{end}}`))
	page = template.Must(page.New("form").Funcs(funcs).Parse(`{{retrysafeToken .}}`))
	w := httptest.NewRecorder()
	assert.NoError(t, forms.Render(w, 201, page, "form", httptest.NewRequest("GET", "/", nil)), "render")
	assert.Equal(t, w.Code, 201, "status")
	assert.Contains(t, w.Body.String(), `value="&#34;&gt;&lt;script&gt;ann"`, "page")
}

// TestAnswer tests that people get a page, and programs a problem document.
func TestAnswer(t *testing.T) {
	t.Parallel()
	busy := httpidem.NewProblem("in-progress", nil).WithRetryAfter(3 * time.Second)
	doubt := httpidem.NewProblem("outcome-unknown", nil)
	broken := template.Must(template.New("").Parse(`{{.None}}`))
	for name, c := range map[string]struct {
		accept string
		err    error
		own    *template.Template
		status int
		isPage bool
		want   string
	}{
		"browser":      {"text/html,*/*;q=0.8", busy, nil, 409, true, "Reload this page in 3 s"},
		"in doubt":     {"application/xml, text/html;q=0.5", doubt, nil, 409, true, "Find out its outcome"},
		"program":      {"application/json", busy, nil, 409, false, `"in-progress"`},
		"anything":     {"*/*", busy, nil, 409, false, `"in-progress"`},
		"refuses it":   {"text/html;q=0", busy, nil, 409, false, `"in-progress"`},
		"broken page":  {"text/html", busy, broken, 409, false, `"in-progress"`},
		"own page":     {"text/html", busy, template.Must(template.New("").Parse(`{{.Code}} {{.Again}}`)), 409, true, "in-progress true"},
		"store away":   {"text/html", retrysafe.ErrUnavailable, nil, 503, true, "cannot be reached"},
		"other errors": {"text/html", errAway, nil, 409, true, "It is not run again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := httptest.NewRequest("POST", "/", nil), httptest.NewRecorder()
			r.Header.Set("Accept", c.accept)
			forms.ErrorHandler(c.own)(w, r, c.err)
			body, _ := io.ReadAll(w.Body)
			assert.Equal(t, w.Code, c.status, "status")
			assert.Equal(t, strings.HasPrefix(w.Header().Get("Content-Type"), "text/html"), c.isPage, "a page")
			assert.Contains(t, string(body), c.want, "body")
			assert.Equal(t, w.Header().Get("Cache-Control"), "no-store", "cache")
			assert.True(t, !errors.Is(c.err, busy) || w.Header().Get("Retry-After") == "3", "Retry-After %q", w.Header().Get("Retry-After"))
		})
	}
}
