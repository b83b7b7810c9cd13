package fingerprint_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var everything = fingerprint.Rule{}

func TestJSONByValue(t *testing.T) {
	t.Parallel()
	same(t, everything, `{"a":1,"b":[{"x":1,"y":null}]}`, " {\"b\" : [ {\"y\":null,\r\n\t\"x\":1 } ],\"a\":1}\n")
	same(t, everything, `"A"`, `"\u0041"`)
	same(t, everything, `{"A":1}`, `{"\u0041":1}`)
	same(t, everything, `"/é😀\n\u0001\""`, `"\/\u00e9\uD83D\ude00\u000a\u0001\u0022"`)
	same(t, everything, `{"a\n":1,"a":2,"\\":3,"b":{"\"":true}}`, `{"\u005c":3,"b":{"\u0022":true},"a\u000A":1,"a":2}`)
	other(t, everything, `{}`, `[]`, `null`, `false`, `true`, `0`, `""`, `"0"`, `"null"`, `[[]]`, `[{}]`, `[null]`, `{"":null}`)
	other(t, everything, `["a","b"]`, `["b","a"]`, `["a,b"]`, `["a\",\"b"]`, `{"a":"b"}`, `["ab"]`)
	other(t, everything, `{"a":{"b":1}}`, `{"a":{},"b":1}`, `{"a":1,"b":{}}`, `{"a":{"B":1}}`)
	other(t, everything, `"é"`, `"e\u0301"`)
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	byValue := [][]string{
		{`10`, `10.00`, `1e1`, `1E+1`, `100e-1`, `0.1e2`},
		{`0`, `-0`, `0.0`, `0e999999999999999999999`, `-0.00E-400`},
		{`1`},
		{`9007199254740992`},
		{`9007199254740993`, `9007199254740993.0`, `9.007199254740993e15`},
		{`123456789012345678901234567890`, `12345678901234567890123456789e1`},
		{`123456789012345678901234567891`},
		{`1e21`, `1000000000000000000000`},
		{`0.1`, `1e-1`, `0.10`},
		{`0.1000000000000000055511151231257827`},
		{`1e-7`, `0.0000001`},
		{`-1.5`, `-15e-1`},
		{`1.5`},
		{`5e-324`},
		{`1.7e308`, `17e307`},
	}
	var firsts []string
	for _, spellings := range byValue {
		same(t, everything, spellings...)
		firsts = append(firsts, spellings[0])
	}
	other(t, everything, firsts...)
	for _, spellings := range byValue {
		other(t, fingerprint.Rule{NumbersAsWritten: true}, spellings...)
	}
	small, huge := strings.Repeat("0", 1000), strings.Repeat("1", 310)
	same(t, everything, `1`, `0.`+small+`1e1001`, `1`+small+`e-1000`)
	for _, r := range []fingerprint.Rule{everything, {NumbersAsWritten: true}} {
		for _, n := range []string{`1e309`, `-1e400`, `1e-325`, huge, `1e99999999999999999999`, `1e-99999999999999999999`} {
			refused(t, r, n, fingerprint.ErrMalformed)
		}
	}
}

func refused(t *testing.T, r fingerprint.Rule, body string, want error) {
	t.Helper()
	c := compile(t, r)
	_, err := c.Sum(jsonType, "", []byte(body))
	assert.ErrorIs(t, err, want, "Sum of %q", body)
	assert.True(t, !strings.Contains(err.Error(), "secret"), "the error %q has nothing of the body", err)
}

func TestMalformedJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"secret":1,"secret":1}`, `{"b":{"a":1,"secret":2,"\u0061":3}}`, `[{"z":1,"y":{"b":1,"a":1,"b":2}}]`,
		`{"x":1,"ts":1,"ts":2}`,
		"\"secret\xff\"", "{\"\xc3\":1}", `"\ud800"`, `"\ud800\u0041secret"`, `"\udc00\ud800"`, `{"\ud83d":1}`, `"\ud800\ud800"`,
		`{"a":1} {"secret":2}`, `1 2`, `{}x`, `nul`, `nulls`, `NaN`, `Infinity`, `-Infinity`, `-`, `01`, `-01`, `1.`, `.5`, `+1`, `1e`, `1e+`, `0x10`,
		`{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a":1 "b":2}`, `[1,]`, `[,1]`, `[1 2]`, `[`, `{`, `{"a":1`, `[1`, `"secret`, `"\`, `"\u00`,
		`"\x41"`, `"\u00g0"`, "\"\n\"", "\"\\n\n\"", "\"\x00\"", "\x00", " ", "\ufeff{}", `'a'`, `tru`, `// x`, `]`, `}`,
	} {
		refused(t, everything, body, fingerprint.ErrMalformed)
		refused(t, fingerprint.Rule{Ignore: []string{"ts", "b"}}, body, fingerprint.ErrMalformed)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`[{"a":`, n) + `1` + strings.Repeat(`}]`, n) }
	same(t, everything, nested(32), nested(32))
	refused(t, everything, nested(32)[:6*32]+`[]`, fingerprint.ErrTooLarge)
	refused(t, everything, nested(33), fingerprint.ErrTooLarge)
	refused(t, fingerprint.Rule{MaxDepth: 1000}, nested(501), fingerprint.ErrTooLarge)
	same(t, fingerprint.Rule{MaxDepth: 1000}, nested(500), nested(500))
	refused(t, everything, strings.Repeat("[", 1<<20), fingerprint.ErrTooLarge)
	refused(t, everything, strings.Repeat(" ", 1<<20)+"1", fingerprint.ErrTooLarge)
	c := compile(t, fingerprint.Rule{MaxBytes: 10})
	_, err := c.Sum("text/plain", "a=bcd", []byte("secret"))
	assert.ErrorIs(t, err, fingerprint.ErrTooLarge, "11 bytes of 10")
	_, err = c.LegacyParams("a=bcd", []byte("secret"))
	assert.ErrorIs(t, err, fingerprint.ErrTooLarge, "11 bytes of 10")
	sum(t, c, "text/plain", "a=bc", "secret")
}

func TestRuleFields(t *testing.T) {
	t.Parallel()
	names := fingerprint.Rule{Ignore: []string{"ts", "geo"}}
	same(t, names, `{"a":1,"b":{"c":2}}`, `{"ts":5,"a":1,"b":{"ts":{"x":[1]},"c":2}}`, `{"geo":[{}],"b":{"c":2,"ts":1},"a":1,"ts":null}`)
	other(t, names, `{"a":[{"ts":1}]}`, `{"a":[]}`, `{"a":["ts"]}`, `{"Ts":1}`, `{"tss":1}`, `{}`)

	paths := fingerprint.Rule{Ignore: []string{"$.order.at", "$.items[*].at", "$.tags[*]"}}
	same(t, paths, `{"order":{"n":1},"items":[{"n":2},3],"tags":[]}`, `{"order":{"at":9,"n":1},"items":[{"n":2,"at":1},3],"tags":[1,[2],{"x":1}]}`)
	other(t, paths, `{"at":1}`, `{"at":2}`, `{"items":{"at":1}}`, `{"items":{"at":2}}`, `{"order":[{"at":1}]}`, `{"order":[{"at":2}]}`, `{"x":{"order":{"at":1}}}`)
	same(t, fingerprint.Rule{Ignore: []string{"$[*].at"}}, `[{"at":1},2]`, `[{},2]`)

	onlyNames := fingerprint.Rule{Only: []string{"amount", "$.to.iban"}}
	same(t, onlyNames, `{"amount":5,"to":{"iban":"X"}}`, `{"to":{"iban":"X","name":"n"},"note":[1],"amount":5.0}`, `{"to":{"iban":"X"},"amount":5,"list":[1,{"x":{}}]}`)
	other(t, onlyNames, `{"amount":5}`, `{"a":{"amount":5}}`, `{"a":[{"x":1},{"amount":5}]}`, `{"amount":{"x":5}}`, `{"amount":{"x":6}}`, `{"amount":null}`, `{"to":{"iban":5}}`)
	refused(t, onlyNames, `{"to":{"name":"n"},"iban":"secret","list":[[],{}]}`, fingerprint.ErrNothingKept)
	refused(t, onlyNames, `5`, fingerprint.ErrNothingKept)

	elements := fingerprint.Rule{Only: []string{"$.tags[*]"}}
	same(t, elements, `{"tags":[1,{"a":2}]}`, `{"x":0,"tags":[1,{"a":2}],"y":{"tags":[5]}}`)
	other(t, elements, `{"tags":[1]}`, `{"tags":[2]}`, `{"tags":[1,1]}`, `{"tags":[{"a":1}]}`)
	refused(t, elements, `{"tags":[],"y":{"tags":[5]}}`, fingerprint.ErrNothingKept)

	both := fingerprint.Rule{Only: []string{"order"}, Ignore: fingerprint.TimeFields()}
	same(t, both, `{"order":{"n":1}}`, `{"order":{"n":1,"timestamp":7},"x":1}`)
	refused(t, both, `{"ts":{"order":1}}`, fingerprint.ErrNothingKept)
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, r := range []fingerprint.Rule{
		{Ignore: []string{""}},
		{Only: []string{"$"}},
		{Ignore: []string{"$."}},
		{Ignore: []string{"$.a..b"}},
		{Ignore: []string{"$.a[0]"}},
		{Ignore: []string{"$[*"}},
		{Ignore: []string{"$.a[*]b"}},
		{Ignore: []string{"$.a]"}},
		{Ignore: []string{"\xff"}},
		{Ignore: []string{"a"}, Only: []string{"a"}},
		{MaxBytes: -1},
		{MaxBytes: 65 << 20},
		{MaxDepth: -1},
		{MaxDepth: 1001},
	} {
		_, err := r.Compile()
		assert.True(t, err != nil, "Compile refuses %+v", r)
		_, err = r.Sum(jsonType, "", nil)
		assert.True(t, err != nil, "Sum refuses %+v", r)
		_, err = r.Legacy("p", "u", "m", "", nil)
		assert.True(t, err != nil, "Legacy refuses %+v", r)
	}
}
