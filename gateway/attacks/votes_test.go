package attacks_test

import (
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestVotes tests that with the file at the top of docs/gateway.md a session has one vote in each
// poll, whatever its client tries.
func TestVotes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/gateway.md")
	assert.NoError(t, err, "page")
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	first, rest, _ := strings.Cut(file, "\n")
	assert.True(t, strings.HasPrefix(first, "upstream: "), "the first line is the service: %q", first)
	x := newTarget(t, rest, created)
	const ann, bob, media = "Cookie: session=anns\r\n", "Cookie: session=bobs\r\n", "Content-Type: application/json\r\n"
	const yes, no, otherPoll = `{"poll":"p1","choice":"yes"}`, `{"poll":"p1","choice":"no"}`, `{"poll":"p2","choice":"yes"}`
	assert.Equal(t, x.send(t, post("/votes", yes, media, ann, key(1))), "201", "a vote")
	for i := range 4 {
		assert.Equal(t, x.send(t, post("/votes", yes, media, ann, key(2+i))), "201", "again, with a new key")
		assert.Equal(t, x.send(t, post("/votes", yes, media, ann)), "201", "again, without a key")
		assert.Equal(t, x.send(t, post("/votes", no, media, ann, key(10+i))), "422 payload-mismatch", "another choice")
		assert.Equal(t, x.send(t, post("/votes?again="+strings.Repeat("x", i), yes, media, ann)), "422 payload-mismatch", "with a query")
	}
	for _, path := range otherSpellings {
		got := x.send(t, post(path, yes, media, ann))
		assert.True(t, strings.HasPrefix(got, "400 "), "%s: %s", path, got)
	}
	for _, path := range []string{"/votes/", "//votes", "/vote%73"} {
		got := x.send(t, post(path, yes, media, ann))
		assert.True(t, got == "201" || strings.HasPrefix(got, "422 "), "%s: %s", path, got)
	}
	for _, cookie := range []string{`session="anns"`, "session =anns", "session=ann%73", "session\t=\tanns"} {
		got := x.send(t, post("/votes", yes, media, "Cookie: "+cookie+"\r\n"))
		assert.Equal(t, got, "201", "the same session, spelled %q", cookie)
	}
	for what, bad := range map[string]string{
		"two, one in disguise": "Cookie: session =anns; session=made-up\r\n", "the other order": "Cookie: session=made-up; session\t=anns\r\n",
		"no cookie": "", "two sessions": "Cookie: session=anns; session=bobs\r\n", "a name": basic("ann", "x"), "both": ann + basic("ann", "x"),
	} {
		got := x.send(t, post("/votes", yes, media, bad))
		assert.True(t, strings.HasPrefix(got, "403 ") || strings.HasPrefix(got, "400 "), "%s: %s", what, got)
	}
	assert.Equal(t, x.reached.Load(), int64(1), "votes of one session in one poll")
	assert.Equal(t, x.send(t, post("/votes", otherPoll, media, ann)), "201", "another poll")
	assert.Equal(t, x.send(t, post("/votes", yes, media, bob)), "201", "another session")
	assert.Equal(t, x.reached.Load(), int64(3), "votes")
}
