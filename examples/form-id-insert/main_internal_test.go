package main

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

var hidden = regexp.MustCompile(`name="id" value="([0-9a-f-]{36})"`)

// openForm opens the form, and returns what a browser sends with it.
func openForm(t *testing.T, p *exampletest.Program) (id, cookie string) {
	t.Helper()
	a := p.Do(t, "GET", "/", "")
	found := hidden.FindStringSubmatch(a.Body)
	assert.Equal(t, len(found), 2, "ids in %s", a.Body)
	cookie, _, _ = strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return found[1], cookie
}

func orderRequest(id, item, cookie string) []string {
	return []string{
		"POST", "/orders", url.Values{"id": {id}, "item": {item}}.Encode(),
		"Content-Type: application/x-www-form-urlencoded", "Cookie: " + cookie,
	}
}

// TestOnce: a form that is sent twice, also over the death of the process, inserts one row, and its
// sender sees the order each time.
func TestOnce(t *testing.T) {
	t.Parallel()
	p := exampletest.Start(t)
	shows := func(id, want string) {
		t.Helper()
		a := p.Do(t, "GET", "/orders/"+id, "")
		assert.Contains(t, a.Body, want, "the page of the order")
	}
	id, cookie := openForm(t, p)
	r := orderRequest(id, "tea", cookie)
	for _, a := range p.AtOnce(t, 20, r[0], r[1], r[2], r[3:]...) {
		assert.Equal(t, a.Status, 303, "status; %s", a.Body)
		assert.Equal(t, a.Header.Get("Location"), "/orders/"+id, "the page of the order")
	}
	shows(id, "tea. There are 1 orders")
	r = orderRequest(id, "coffee", cookie)
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 303, "the form again, with another item")
	shows(id, "tea. There are 1 orders")
	_, other := openForm(t, p)
	r = orderRequest(id, "tea", other)
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 409, "the form of another session")
	r = orderRequest("1", "tea", cookie)
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 400, "an id that is none")
	p.Kill()

	p.Args("-pause", "10m")
	p.Restart(t)
	id, cookie = openForm(t, p)
	r = orderRequest(id, "milk", cookie)
	gone := make(chan error, 1)
	go func() {
		_, err := p.Send(t.Context(), r[0], r[1], r[2], r[3:]...)
		gone <- err
	}()
	exampletest.Await(t, "the row of the order", func() bool { return p.Do(t, "GET", "/orders/"+id, "").Status == 200 })
	p.Kill()
	assert.True(t, <-gone != nil, "the browser gets no answer from the process that was killed")
	p.Args()
	p.Restart(t)
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 303, "the form again")
	shows(id, "milk. There are 2 orders")
	p.Stop(t)
}
