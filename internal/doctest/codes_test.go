package doctest_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var (
	rowOfLua = regexp.MustCompile(`\["([a-z-]+)"\] = \{(\d+), ([^{}]*)\}`)
	text     = regexp.MustCompile(`"([^"]*)"`)
)

// TestCodesOfNginx: the script answers with the status and the texts of the table of codes. Where
// the table leaves the detail to the place that refuses, the script has its own.
func TestCodesOfNginx(t *testing.T) {
	t.Parallel()
	script := files(t, ".lua")["deploy/nginx/retrysafe/problem.lua"]
	script = regexp.MustCompile(`" \.\.\s+"`).ReplaceAllString(script, "")
	rows := rowOfLua.FindAllStringSubmatch(script, -1)
	assert.Equal(t, len(rows), strings.Count(script, `"] = {`), "rows")
	assert.True(t, len(rows) > 15, "rows: %d", len(rows))
	for _, m := range rows {
		c, ok := retrysafe.ParseCode(m[1])
		assert.True(t, ok && c.String() == m[1], "%s is a code", m[1])
		var texts []string
		for _, quoted := range text.FindAllStringSubmatch(m[3], -1) {
			texts = append(texts, quoted[1])
		}
		want := []string{c.Title()}
		if c.Detail() != "" {
			want = append(want, c.Detail())
		} else if len(texts) == 2 {
			texts = texts[:1]
		}
		assert.Equal(t, m[2], strconv.Itoa(c.HTTPStatus()), "the status of %v", c)
		assert.Equal(t, texts, want, "the texts of %v", c)
	}
	for name, all := range files(t, ".lua") {
		for _, m := range regexp.MustCompile(`problem\.send\("([a-z-]+)"`).FindAllStringSubmatch(all, -1) {
			assert.Contains(t, script, `["`+m[1]+`"] = {`, "a problem of %s", name)
		}
	}
}

// TestCodesOfTheBrowser: the script retries after the conflicts that the table of codes calls
// retryable, and after no other code that it names.
func TestCodesOfTheBrowser(t *testing.T) {
	t.Parallel()
	script := files(t, ".js")["httpidem/browser/retrysafe.js"]
	list := func(name string) (codes []retrysafe.Code) {
		_, rest, ok := strings.Cut(script, "const "+name+" = [")
		assert.True(t, ok, "the script has %s", name)
		rest, _, _ = strings.Cut(rest, "]")
		for _, m := range text.FindAllStringSubmatch(rest, -1) {
			c, ok := retrysafe.ParseCode(m[1])
			assert.True(t, ok, "%s is a code", m[1])
			codes = append(codes, c)
		}
		return codes
	}
	var busy []retrysafe.Code
	for _, c := range retrysafe.Codes() {
		if c.HTTPStatus() == 409 && c.Retryable() {
			busy = append(busy, c)
		}
	}
	got := list("BUSY")
	slices.Sort(got)
	assert.Equal(t, got, busy, "codes after which the script asks again")
	named := slices.Concat(list("DONE"), list("FINAL"))
	for _, c := range named {
		assert.True(t, !c.Retryable(), "%v is retryable, and the script does not retry", c)
		assert.True(t, !endsByStatus[c], "the script has %v; take it out of the list", c)
	}
	for _, c := range retrysafe.Codes() {
		if c.HTTPStatus() != 0 && !c.Retryable() && !slices.Contains(named, c) {
			assert.True(t, endsByStatus[c], "DONE or FINAL of the script has %v, or endsByStatus, since its status says enough", c)
		}
	}
}

// endsByStatus are the codes that the browser's script need not know: the request has to be changed
// before it is sent again.
var endsByStatus = map[retrysafe.Code]bool{
	retrysafe.CodePayloadMismatch: true, retrysafe.CodeTokenRefused: true, retrysafe.CodeKeyMissing: true,
	retrysafe.CodeKeyMalformed: true, retrysafe.CodeKeyTooShort: true, retrysafe.CodeKeyNotMade: true,
	retrysafe.CodeTokenMissing: true, retrysafe.CodeTenantMissing: true, retrysafe.CodeCallerAmbiguous: true,
	retrysafe.CodeCookiesChanged: true, retrysafe.CodeRequestAmbiguous: true, retrysafe.CodeQueryMalformed: true,
	retrysafe.CodeBodyTooLarge: true, retrysafe.CodeSignatureMissing: true, retrysafe.CodeSignatureRefused: true,
	retrysafe.CodeSignatureExpired: true, retrysafe.CodeNonceUsed: true,
}

// saysAway are the files that choose themselves to answer that the store is away, so that nothing
// was done, with the reason why that is certain. All others answer an error with its code, and an
// error without one as an unknown outcome.
var saysAway = map[string]string{
	"code.go":                       "the table",
	"gateway/outcome.go":            "nothing was sent to the service",
	"gateway/tokens.go":             "the check before a token is issued",
	"httpidem/middleware.go":        "the check before the key is claimed",
	"httpidem/httpsig/refusal.go":   "the signature is verified before the request is passed on",
	"mqidem/disposition.go":         "the code of an error",
	"httpidem/token/issuer_http.go": "the code of an error",
}

// TestUnknownErrors: no adapter takes an error that it does not know for "nothing was done".
func TestUnknownErrors(t *testing.T) {
	t.Parallel()
	away := regexp.MustCompile(`"store-unavailable"|"STORE_UNAVAILABLE"|\bCodeStoreUnavailable\b`)
	found := map[string]bool{}
	for file, code := range files(t, ".go") {
		if strings.HasSuffix(file, "_test.go") || !product(file) || !away.MatchString(code) {
			continue
		}
		found[file] = true
		assert.True(t, saysAway[file] != "", "%s answers that nothing was done; use the code of the error (retrysafe.CodeOf), or say here why that is certain", file)
	}
	for file := range saysAway {
		assert.True(t, found[file], "%s says so no more; take it out of the list", file)
	}
}
