package attacks_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

func created(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

// otherSpellings of /votes, which some servers read as /votes: servers that ignore case, Tomcat,
// IIS and Windows, servers in C, and servers that decode twice.
var otherSpellings = []string{
	"/votes.json", "/votes.JSON", "/votes.php", "/Votes.json", "/votes;a.json", "/votes%3Fx", "/votes%3Fx=1.json",
	"/Votes", "/VOTES", "/votes;a=1", "/votes;", "/;/votes", "/x/..;/votes", "/x/..;a/votes", "/votes%20", "/votes.", "/votes..", "/votes%2e", "/votes%00",
	"/votes%00.html", "/votes%0a", "/votes%3b1", "/votes%2520", "/vote%73.", "/votes%2F", "/%2Fvotes", "/x%2F..%2Fvotes", "/votes%5C", "/Votes;a=1/", "//Votes",
	"/vote%C5%BF", "/x/..%3B/votes",
}

// TestOtherSpellings tests that other spellings of a guarded path do not reach the service.
func TestOtherSpellings(t *testing.T) {
	t.Parallel()
	for _, rest := range []string{"", "  - {match: POST /**, key: off}\n"} {
		x := newTarget(t, "routes:\n  - {match: POST /votes, key: required}\n"+rest, created)
		for _, path := range otherSpellings {
			got := x.send(t, post(path, "yes"))
			assert.True(t, strings.HasPrefix(got, "400 "), "%s: %s", path, got)
		}
		for _, path := range []string{"/votes", "/votes/", "//votes", "/x/../votes", "/./votes", "/vote%73"} {
			assert.Equal(t, x.send(t, post(path, "yes")), "400 key-missing", "%s is the route", path)
		}
		assert.Equal(t, x.reached.Load(), int64(0), "requests that reached the service")
		for _, path := range []string{"/vote", "/votes2", "/votes/1", "/v.otes", "/votes.longer-than-one", "/.votes", "/other.json", "/a;b/c", "/files/a%20b.txt"} {
			assert.Equal(t, x.send(t, post(path, "yes")), "201", "%s is another path", path)
		}
	}
}

// TestSpellingsThatAreTheirOwn tests that a route that names a path literally, and case: exact,
// take precedence.
func TestSpellingsThatAreTheirOwn(t *testing.T) {
	t.Parallel()
	x := newTarget(t, `
routes:
  - {match: POST /votes, key: required}
  - {match: POST /Votes, key: off}
  - {match: POST /polls, key: required, case: exact}
  - {match: POST /free/**, key: off}
  - {match: POST /feed, key: required, extension: exact}
  - {match: POST /lists, key: required}
  - {match: POST /lists.csv, key: off}
`, created)
	for path, want := range map[string]string{
		"/Votes": "201", "/VOTES": "400 request-ambiguous", "/Polls": "201", "/polls;a": "400 request-ambiguous", "/polls": "400 key-missing", "/Free/votes": "201", "/free/a;b": "201",
		"/feed.json": "201", "/feed": "400 key-missing", "/lists.csv": "201", "/lists.json": "400 request-ambiguous", "/free/lists.json": "201",
	} {
		got := x.send(t, post(path, "yes"))
		assert.True(t, strings.HasPrefix(got, want), "%s: got %s, want %s", path, got, want)
	}
}

// TestSpellingsThatLeadElsewhere tests that a path that matches a route with few guards literally
// does not reach one with more guards.
func TestSpellingsThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	x := newTarget(t, `
defaults: {key: required}
routes:
  - {match: POST /search/**, key: off}
  - {match: POST /votes, key: required}
`, created)
	for _, path := range []string{"/search/..;/votes", "/search/..;a=1/votes", "/search/%252e%252e/votes", "/search/..;/orders", "/search/%2e%2e;/votes", "/search/..%5cvotes"} {
		got := x.send(t, post(path, "yes"))
		assert.True(t, strings.HasPrefix(got, "400 "), "%s: %s", path, got)
	}
	assert.Equal(t, x.reached.Load(), int64(0), "requests that reached the service")
	for _, path := range []string{"/search/a;b", "/search/a.b/c%20d", "/search/..a", "/search/50%25"} {
		assert.Equal(t, x.send(t, post(path, "yes")), "201", "%s is a search", path)
	}
}
