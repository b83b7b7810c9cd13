package httpidemtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// testKeys tests H1.
func testKeys(t *testing.T, open Open) {
	t.Run("malformed", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		for name, lines := range map[string][]string{
			"empty": {""}, "two lines": {"abc", "abc"}, "a list": {"a, b"}, "a list without space": {"a,b"}, "semicolon": {"a;b"},
			"backslash": {`a\b`}, "quote inside": {`a"b`}, "unclosed": {`"abc`}, "bad escape": {`"a\bc"`}, "ends in escape": {`"abc\`},
			"empty string": {`""`}, "text after the string": {`"abc"x`}, "a list of strings": {`"a", "b"`}, "space inside": {"a b"},
			"not ASCII": {"ключ"}, "not ASCII in a string": {`"ключ"`}, "256 octets": {strings.Repeat("x", 256)},
			"256 octets in a string": {`"` + strings.Repeat("x", 256) + `"`}, "bad parameter": {`"abc";=1`}, "parameter, then list": {`"abc";a=1, "b"`},
		} {
			c := call{body: "x", header: []string{"Authorization", "Bearer t"}}
			for _, v := range lines {
				c.header = append(c.header, "Idempotency-Key", v)
			}
			r := wd.send(c)
			assert.Equal(t, r.status, http.StatusBadRequest, "%s: status", name)
			wd.checkProblem(r, http.StatusBadRequest, "key-malformed", false)
		}
		wd.checkStarts(0, "for malformed keys")
	})
	t.Run("well formed", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		n := int64(0)
		for _, same := range [][]string{
			{`abc`, `"abc"`, `"abc";v=1`, `"abc"; a; b=?1;c="x;\"y";d=:YWI=:;e=1.5;f=tok/en`},
			{`"a b"`},
			{`"a\"b"`, `"a\"b";x`},
			{`"a,b;c"`},
			{`Abc`},
			{`8e03978e-40d5-43e8-bc93-6894a57f9324`},
			{strings.Repeat("x", 255)},
			{"!"},
		} {
			n++
			for i, v := range same {
				r := wd.send(keyedCall(v, "x"))
				assert.Equal(t, r.status, http.StatusCreated, "%s", v)
				assert.Equal(t, r.isReplay(), i > 0, "%s is replayed", v)
			}
			wd.checkStarts(n, "after "+same[0])
		}
	})
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{KeySource: httpidem.KeySource{Header: []string{"X-First", "x-second"}}}}, nil)
		r := wd.send(call{header: []string{"X-Second", longKey}})
		again := wd.send(call{header: []string{"X-First", longKey, "X-Second", "other"}})
		wd.checkReplay(r, again)
		plain := wd.send(call{header: []string{"Idempotency-Key", longKey}})
		assert.True(t, !plain.isReplay(), "a field that is not configured is no key")
		wd.checkProblem(wd.send(call{header: []string{"X-First", "", "X-Second", longKey}}), 400, "key-malformed", false)
	})
}

// testGuarded tests H2.
func testGuarded(t *testing.T, open Open) {
	t.Run("methods", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		for i, m := range []string{"POST", "PATCH"} {
			c := keyedCall("k-"+m, "x")
			c.method = m
			wd.checkReplay(wd.send(c), wd.send(c))
			wd.checkStarts(int64(i+1), "after "+m)
		}
		n := wd.starts.Load()
		for _, m := range []string{"GET", "OPTIONS", "PUT", "DELETE"} {
			for range 2 {
				c := keyedCall("k-"+m, "")
				c.method = m
				assert.True(t, !wd.send(c).isReplay(), "%s is not guarded", m)
				n++
			}
			wd.checkStarts(n, "after "+m)
		}
	})
	t.Run("configured methods", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{Request: httpidem.RequestOptions{Methods: []string{"PUT", "DELETE"}}}}, nil)
		for _, m := range []string{"PUT", "DELETE"} {
			c := keyedCall("k-"+m, "")
			c.method = m
			wd.checkReplay(wd.send(c), wd.send(c))
		}
		wd.checkStarts(2, "in all")
		wd.send(keyedCall("k", ""))
		wd.send(keyedCall("k", ""))
		wd.checkStarts(4, "for POST, which is not guarded here")
	})
	t.Run("no key", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		wd.send(call{})
		wd.send(call{})
		wd.checkStarts(2, "without a key")
		required := newWorld(t, open, Setup{Guard: httpidem.Options{Key: httpidem.Required}}, nil)
		required.checkProblem(required.send(call{}), 400, "key-missing", false)
		required.checkStarts(0, "where the key is required")
		get := required.send(call{method: "GET"})
		assert.Equal(t, get.status, 201, "a GET needs no key")
	})
}
