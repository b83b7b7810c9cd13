package httpidemtest

import (
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// fields are the header fields of a caller: names and values.
type fields []string

func cookieFields(s string) fields { return fields{"Cookie", s} }

// testCallers tests the rest of H3: callers without an Authorization header.
func testCallers(t *testing.T, open Open) {
	session := &httpidem.Credentials{Binding: []string{"cookie:session", "header:X-Device"}}
	stable := &httpidem.Credentials{Cookie: "login"}
	apiKey := &httpidem.Credentials{HeaderSecret: "X-Api-Key"}
	either := &httpidem.Credentials{Cookie: "login", HeaderSecret: "X-Api-Key"}
	key := func(s string) fields { return fields{"X-Api-Key", s} }
	for name, tt := range map[string]struct {
		by            *httpidem.Credentials
		first, second fields
		want          string
	}{
		"the same cookies":                  {nil, cookieFields("session=ann; theme=dark"), cookieFields("theme=dark; session=ann"), "replayed"},
		"the same cookies in two fields":    {nil, cookieFields("session=ann; theme=dark"), fields{"Cookie", "theme=dark", "Cookie", "session=ann"}, "replayed"},
		"another session":                   {nil, cookieFields("session=ann"), cookieFields("session=bob"), "409 cookies-changed"},
		"a cookie, then none":               {nil, cookieFields("session=ann"), nil, "409 cookies-changed"},
		"no cookie, then one":               {nil, nil, cookieFields("session=bob"), "409 cookies-changed"},
		"a cookie more":                     {nil, cookieFields("session=ann"), cookieFields("session=ann; seen=1"), "409 cookies-changed"},
		"cookies beside a credential":       {nil, fields{"Authorization", basicHeader("ann", "1"), "Cookie", "a=1"}, fields{"Authorization", basicHeader("ann", "1"), "Cookie", "a=2"}, "replayed"},
		"two credentials":                   {nil, fields{"Authorization", basicHeader("ann", "1"), "Authorization", basicHeader("bob", "1")}, nil, "400 caller-ambiguous"},
		"named: another cookie beside it":   {session, cookieFields("session=ann; seen=0"), cookieFields("seen=1; session=ann"), "replayed"},
		"named: another session":            {session, cookieFields("session=ann"), cookieFields("session=bob"), "409 cookies-changed"},
		"named: another device":             {session, fields{"X-Device", "a"}, fields{"X-Device", "b"}, "409 cookies-changed"},
		"named: the session is gone":        {session, cookieFields("session=ann"), cookieFields("seen=1"), "409 cookies-changed"},
		"named: a session twice":            {session, cookieFields("session=ann"), cookieFields("session=ann; session=bob"), "409 cookies-changed"},
		"a login":                           {stable, cookieFields("login=ann; seen=0"), cookieFields("login=ann; seen=1"), "replayed"},
		"another login":                     {stable, cookieFields("login=ann"), cookieFields("login=bob"), "apart"},
		"a login, then none":                {stable, cookieFields("login=ann"), nil, "apart"},
		"a login twice":                     {stable, cookieFields("login=ann; login=bob"), nil, "400 caller-ambiguous"},
		"a login beside a credential":       {stable, fields{"Cookie", "login=ann", "Authorization", basicHeader("bob", "1")}, nil, "400 caller-ambiguous"},
		"the same API key":                  {apiKey, key("k-ann"), key("k-ann"), "replayed"},
		"another API key":                   {apiKey, key("k-ann"), key("k-bob"), "apart"},
		"an API key twice":                  {apiKey, fields{"X-Api-Key", "k-ann", "X-Api-Key", "k-bob"}, nil, "400 caller-ambiguous"},
		"an API key beside a credential":    {apiKey, fields{"X-Api-Key", "k-ann", "Authorization", basicHeader("bob", "1")}, nil, "400 caller-ambiguous"},
		"an API key beside a login":         {either, fields{"X-Api-Key", "k-ann", "Cookie", "login=bob"}, nil, "400 caller-ambiguous"},
		"an API key of the text of a login": {either, key("ann"), cookieFields("login=ann"), "apart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wd := newWorld(t, open, Setup{Guard: httpidem.Options{Credentials: tt.by}}, nil)
			send := func(by fields) reply {
				return wd.send(call{body: "x", header: append([]string{"Idempotency-Key", longKey}, by...)})
			}
			first := send(tt.first)
			switch tt.want {
			case "replayed":
				wd.checkReplay(first, send(tt.second))
				wd.checkStarts(1, "in all")
			case "apart":
				second := send(tt.second)
				assert.Equal(t, second.status, 201, "status")
				assert.True(t, !second.isReplay() && second.body != first.body, "an answer of its own: %s", second.body)
				wd.checkStarts(2, "in all")
			case "409 cookies-changed":
				wd.checkProblem(send(tt.second), 409, "cookies-changed", false)
				wd.checkStarts(1, "in all")
				wd.checkReplay(first, send(tt.first))
			default:
				wd.checkProblem(first, 400, "caller-ambiguous", false)
				wd.checkStarts(0, "in all")
			}
		})
	}
}
