package httpidemtest

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// testRedirects tests H20: a redirect that keeps the method is no outcome, and no answer leads past
// the implementation. The origin does what frameworks do by themselves: it sends /votes on to
// /votes/, by a URL that it makes of the Host of the request.
func testRedirects(t *testing.T, open Open) {
	for name, status := range map[string]int{"absolute": http.StatusTemporaryRedirect, "relative": http.StatusPermanentRedirect} {
		named := func(*http.Request) string { return "vote" }
		for kind, guard := range map[string]httpidem.Options{
			"a key": {}, "a key of a named operation": {Request: httpidem.RequestOptions{Operation: named}}, "a token": {Key: httpidem.Token},
			"fields": {Key: httpidem.Fields, Request: httpidem.RequestOptions{Fields: []string{"poll"}, Operation: named}},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				v := &votes{absolute: name == "absolute", status: status}
				setup, cast := Setup{Guard: guard}, keylessCall(ann, jsonBody, `{"poll":1}`)
				if guard.Key == httpidem.Token {
					m := newMint(t, open, setup, false, v.serve)
					v.world = m.world
					cast.header = append(cast.header, "Idempotency-Key", m.issue(ann))
				} else {
					v.world = newWorld(t, open, setup, v.serve)
					cast.header = append(cast.header, "Idempotency-Key", "a-vote")
				}
				v.castVotes(cast, guard.Request.Operation != nil && guard.Key != httpidem.Fields || guard.Key == httpidem.Token)
			})
		}
	}
	t.Run("addresses", func(t *testing.T) {
		t.Parallel()
		v := &votes{absolute: true}
		v.world = newWorld(t, open, Setup{Policy: retrysafe.Policy{}}, v.serve)
		cast := keyedCall("a-vote", "x")
		cast.path = "/votes/"
		first := v.send(cast)
		v.checkLocation(first, "the first answer")
		second := v.send(cast)
		assert.True(t, second.isReplay(), "the duplicate is replayed")
		v.checkLocation(second, "the replay")
		v.checkLocation(v.send(call{method: http.MethodGet, path: "/votes/"}), "an answer without a guard")
	})
}

// votes is an origin that redirects.
type votes struct {
	*world
	absolute bool
	status   int
	cast     atomic.Int64
}

func (v *votes) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	at := ""
	if v.absolute {
		at = "http://" + r.Host
	}
	h := w.Header()
	if r.URL.Path == "/votes" {
		h.Set("Location", at+"/votes/")
		w.WriteHeader(v.status)
		return
	}
	n := v.cast.Add(1)
	h.Set("Location", at+"/votes/7")
	h.Set("Content-Location", at+"/votes/7")
	h.Set("Refresh", "1; url="+at+"/votes/7")
	h.Set("Link", "<"+at+"/votes/7>; rel=\"self\"")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "vote %d", n)
}

// castVotes casts a vote three times by a client that follows redirects, and then at the path to
// which these lead. pathCounts says that a request at another path is another request of the same
// key.
func (v *votes) castVotes(c call, pathCounts bool) {
	v.t.Helper()
	c.path = "/votes"
	first, at := v.followRedirects(c)
	assert.Equal(v.t, fmt.Sprint(first.status, first.body), "201vote 1", "the first press")
	v.checkHost(at, "the first press ends")
	for range 2 {
		again, at := v.followRedirects(c)
		v.checkHost(at, "the next press ends")
		if pathCounts {
			v.checkProblem(again, 422, "payload-mismatch", false)
			continue
		}
		v.checkReplay(first, again)
	}
	c.path = "/votes/"
	v.checkReplay(first, v.send(c))
	assert.Equal(v.t, v.cast.Load(), int64(1), "votes of four presses")
}

// followRedirects sends a request and follows redirects, as a browser does. It returns the URL of
// the last answer.
func (v *votes) followRedirects(c call) (reply, *url.URL) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.base+c.path, strings.NewReader(c.body))
	assert.NoError(v.t, err, "request")
	for i := 0; i < len(c.header); i += 2 {
		req.Header.Add(c.header[i], c.header[i+1])
	}
	resp, err := (&http.Client{Transport: v.http.Transport}).Do(req)
	assert.NoError(v.t, err, "a client that follows redirects")
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(v.t, err, "body")
	return reply{resp.StatusCode, resp.Header, resp.Trailer, string(body)}, resp.Request.URL
}

// checkHost fails the test if a client has been led to another host.
func (v *votes) checkHost(at *url.URL, what string) {
	v.t.Helper()
	assert.Equal(v.t, "http://"+at.Host, v.base, "where %s", what)
}

// checkLocation fails the test if an answer has a URL of another host.
func (v *votes) checkLocation(r reply, what string) {
	v.t.Helper()
	base, err := url.Parse(v.base + "/votes/")
	assert.NoError(v.t, err, "base")
	for name, cut := range map[string]string{"Location": "", "Content-Location": "", "Refresh": "url=", "Link": "<"} {
		_, target, ok := strings.Cut(r.header.Get(name), cut)
		assert.True(v.t, ok, "%s has %s", what, name)
		target, _, _ = strings.Cut(target, ">")
		u, err := base.Parse(target)
		assert.NoError(v.t, err, "%s of %s", name, what)
		assert.Equal(v.t, u.String(), v.base+"/votes/7", "%s of %s", name, what)
	}
}
