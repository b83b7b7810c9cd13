package route_test

import (
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/internal/route"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// table has a guarded route, one that is not, and a literal route whose path looks like a spelling
// of the guarded one.
func table(t *testing.T) *route.Table[string] {
	t.Helper()
	table := route.NewTable(&route.Entry[string]{Methods: []string{"POST"}, To: "rest"})
	add := func(text string, e route.Entry[string]) {
		p, err := route.Parse(text)
		assert.NoError(t, err, "%s", text)
		e.Pattern, e.Methods, e.To = p, []string{p.Method}, text
		table.Add(&e)
	}
	add("POST /votes/*", route.Entry[string]{Guards: true})
	add("POST /exact", route.Entry[string]{Guards: true, ExactCase: true, ExactExtension: true})
	add("POST /open/**", route.Entry[string]{})
	add("POST /Votes/named", route.Entry[string]{})
	add("POST /**", route.Entry[string]{EveryMethod: true})
	return table
}

// TestFind tests which route a request gets, and which requests get none since a lenient service
// may read their path as that of a guarded route.
func TestFind(t *testing.T) {
	t.Parallel()
	table := table(t)
	for target, want := range map[string]string{
		"/votes/1": "POST /votes/*", "/votes/1/": "POST /votes/*", "//votes//1": "POST /votes/*", "/x/../votes/1": "POST /votes/*",
		"/votes/%31": "POST /votes/*", "/votes": "POST /**", "/votes/1/2": "POST /**", "/open": "POST /open/**", "/open/a/b": "POST /open/**",
		"/Votes/1": "", "/VOTES/1": "", "/votes;a=1/1": "", "/votes./1": "", "/votes%20/1": "", "/votes/1%2Fx": "", "/votes%5C1": "", "/votes/1.json": "POST /votes/*",
		"/Votes/named": "POST /Votes/named", "/exact": "POST /exact", "/Exact": "POST /**", "/exact.json": "POST /**", "/exact;a": "",
	} {
		to, ok := table.Find(httptest.NewRequest("POST", target, nil))
		assert.Equal(t, ok, want != "", "%s: whether it has a route", target)
		assert.Equal(t, to, want, "%s", target)
	}
	to, ok := table.Find(httptest.NewRequest("PUT", "/votes/1", nil))
	assert.True(t, ok && to == "POST /**", "another method: %q, %v", to, ok)
	empty := route.NewTable(&route.Entry[string]{To: "rest"})
	to, ok = empty.Find(httptest.NewRequest("POST", `/a%5Cb`, nil))
	assert.True(t, ok && to == "rest" && empty.Rest() == "rest", "without routes: %q, %v", to, ok)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "/a", "POST", "POST a", "post /a", "POST /a b", "POST /a%20", "POST /a?b", "POST /a#b", "POST /a*", "POST /**/a", "PO ST /a"} {
		_, err := route.Parse(text)
		assert.True(t, err != nil, "%q is taken", text)
	}
	p, err := route.Parse("* /a/*/**")
	assert.True(t, err == nil && p.Method == "*", "a method of any name: %v", err)
}
