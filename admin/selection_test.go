package admin_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// payAs stores a payment of a caller of Basic authentication, as the middleware would.
func (p *place) payAs(t *testing.T, who, id, location string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/payments", nil)
	assert.NoError(t, err, "request")
	r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(who+":pw")))
	tenantOf, _ := httpidem.ByAuthorization(p.engine)
	tenant, err := tenantOf(r)
	assert.NoError(t, err, "tenant")
	a, _, err := p.engine.Begin(t.Context(), retrysafe.Key{Tenant: tenant, Operation: "POST /payments", ID: id})
	assert.NoError(t, err, "begin")
	answer, err := httpidem.StoredAnswer(201, http.Header{"Location": {"https://shop.example" + location}}, []byte(`{"payment":"pay_of_`+who+`"}`))
	assert.NoError(t, err, "answer")
	assert.NoError(t, a.Complete(t.Context(), answer), "complete")
}

// search lists records by what the body says.
func (p *place) search(t *testing.T, who, query string, body admin.OfTenant) (int, admin.RecordPage, string) {
	t.Helper()
	status, text := p.ask(t, who, "POST", "/records/list"+query, jsonOf(body), nil)
	var page admin.RecordPage
	assert.NoError(t, json.Unmarshal([]byte(text), &page), "page")
	return status, page, text
}

// TestListOfCaller: a person finds the records of a caller by its name, of two callers who used one
// key, and by the time.
func TestListOfCaller(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.payAs(t, "ann", "order-17", "/payments/1")
	p.payAs(t, "bob", "order-17", "/payments/2")
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		query string
		body  admin.OfTenant
		want  int
	}{
		{"", admin.OfTenant{User: "basic:ann"}, 1},
		{"", admin.OfTenant{User: "ann", ID: "order-17"}, 1},
		{"", admin.OfTenant{ID: "order-17"}, 2},
		{"", admin.OfTenant{User: "header:ann"}, 0},
		{"", admin.OfTenant{User: "header:" + secrets[0]}, 2},
		{"?since=2001-01-01T00:00:00Z&until=" + later, admin.OfTenant{ID: "order-17"}, 2},
		{"?since=" + later, admin.OfTenant{ID: "order-17"}, 0},
		{"?until=2001-01-01T00:00:00Z", admin.OfTenant{}, 0},
	} {
		status, page, text := p.search(t, "vera", c.query, c.body)
		assert.True(t, status == 200 && len(page.Records) == c.want && page.Read >= 4, "%s %+v: %d %s", c.query, c.body, status, text)
	}
	for _, bad := range []admin.OfTenant{{User: "user:ann"}, {User: "basic:ann", Tenant: "x"}} {
		status, _, text := p.search(t, "vera", "", bad)
		assert.Equal(t, status, 400, "%+v: %s", bad, text)
	}
	status, _, _ := p.search(t, "vera", "?since=yesterday", admin.OfTenant{})
	assert.Equal(t, status, 400, "a time that is none")
	status, text := p.ask(t, "vera", "POST", "/records/find", jsonOf(admin.Key{Layer: "http", User: "basic:bob", Operation: "POST /payments", ID: "order-17"}), nil)
	assert.True(t, status == 200 && strings.Contains(text, "completed"), "the whole key of a caller: %d %s", status, text)
	status, _ = p.ask(t, "vera", "POST", "/records/find", jsonOf(admin.Key{Layer: "http", User: "basic:carl", Operation: "POST /payments", ID: "order-17"}), nil)
	assert.Equal(t, status, 404, "the whole key of another caller")
	_, err := p.store.(storeapi.Limiter).Charge(t.Context(), storeapi.ChargeRequest{Namespace: "shop", Tenant: "ann", Keys: 3, Bytes: 5, For: time.Hour}) //nolint:forcetypeassert,errcheck // memstore counts
	assert.NoError(t, err, "charge")
	status, text = p.ask(t, "vera", "POST", "/quotas/find", jsonOf(admin.Tenant{User: "ann"}), nil)
	assert.True(t, status == 200 && strings.Contains(text, `"keys":3`), "the quota of a caller: %d %s", status, text)
}

// TestSearchInAnswers: who may reveal finds a record by what its answer says, with an entry in the
// audit log, and sees nothing of any answer. No cursor begins a search without an entry.
func TestSearchInAnswers(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i := range 250 {
		p.payAs(t, fmt.Sprint("user-", i), "order-17", fmt.Sprint("/payments/", i))
	}
	log := func() (n int) {
		for _, e := range get[admin.Log](t, p, "vera", "/audit").Entries {
			if e.Action == "search-answers" {
				n++
			}
		}
		return n
	}
	status, _, text := p.search(t, "vera", "", admin.OfTenant{Location: "/payments/7", Reason: "x"})
	assert.True(t, status == 403 && strings.Contains(text, "reveal"), "without the role: %d %s", status, text)
	status, _, _ = p.search(t, "rex", "", admin.OfTenant{Location: "/payments/7"})
	assert.Equal(t, status, 400, "without a reason")
	status, _, _ = p.search(t, "rex", "", admin.OfTenant{Text: "pay", Reason: "x"})
	assert.Equal(t, status, 400, "a text that is too short")
	assert.Equal(t, log(), 0, "entries of what was refused")

	for name, body := range map[string]admin.OfTenant{
		"a path": {Location: "/payments/249", Reason: "x"}, "a location": {Location: "https://shop.example/payments/249", Reason: "x"},
		"a text": {Text: "pay_of_user-249", Reason: "x"}, "a text of a caller": {Text: "payments/249", User: "basic:user-249", Reason: "x"},
	} {
		found, after, looked, before := 0, "", 0, log()
		for {
			status, page, text := p.search(t, "rex", "?limit=1000&state=completed&after="+after, body)
			assert.Equal(t, status, 200, "%s: %s", name, text)
			assert.Equal(t, log(), before+2, "%s: entries after each page, begun and done", name)
			assert.True(t, !strings.Contains(text, "pay_of") && !strings.Contains(text, "shop.example"), "%s: the page has a part of an answer: %s", name, text)
			found += len(page.Records)
			looked += page.Answers
			if after = page.Next; after == "" {
				break
			}
		}
		assert.Equal(t, found, 1, "%s: records", name)
		assert.True(t, looked >= 250 || body.User != "" && looked == 1, "%s: answers that were searched: %d", name, looked)
	}

	first := get[admin.RecordPage](t, p, "rex", "/records?limit=10")
	_, page, _ := p.search(t, "rex", "?limit=10", admin.OfTenant{Text: "pay_of_user-1", Reason: "x"})
	for name, after := range map[string]string{"of a list": first.Next, "of another search": page.Next, "that is none": "x"} {
		status, _, text := p.search(t, "rex", "?after="+after, admin.OfTenant{Text: "pay_of_user-2", Reason: "x"})
		assert.Equal(t, status, 400, "a cursor %s: %s", name, text)
	}
	assert.True(t, !slices.Contains([]string{first.Next, page.Next}, ""), "both lists go on")
}
