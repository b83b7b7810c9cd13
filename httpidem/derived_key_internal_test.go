package httpidem

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestMadeFormats freezes the ids of derived keys, and the rule of their fingerprints: stored
// records depend on them.
func TestMadeFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Key: Params}, "AcRuMXgcnjZ7ItOKk0RxIsgx4_d9YEbiv3bvmbTWGlwp 0 0"},
		{Options{Key: Params, Request: RequestOptions{Rule: fingerprint.Rule{Ignore: []string{"ts"}, NumbersAsWritten: true}}}, "AU3EzE0ldPtjv0twXGJwa6cq8eXgMi4X0RAnETfXvyjF 0 0"},
		{Options{Key: Fields, Request: RequestOptions{Fields: []string{"$.poll", "query:q", "header:x-v"}}}, "GEdgNSmX3XKNrs8i73t3EwutZo5Y_oASS3ayUiFoTNE 24 33"},
		{Options{Key: Fields, Request: RequestOptions{Fields: []string{"header:X-V", "query:q", "/poll"}, Rule: fingerprint.Rule{Ignore: []string{"ts"}}}}, "GEdgNSmX3XKNrs8i73t3EwutZo5Y_oASS3ayUiFoTNE 61 33"},
	} {
		k, err := tt.o.keyDeriver()
		assert.NoError(t, err, "maker")
		body := `{"poll":7,"ts":1}`
		r := httptest.NewRequest("POST", "/votes?q=a", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-V", "v")
		x := new(guardedCall)
		id, p := k.derive(r, []byte(body), x)
		assert.True(t, p == nil, "problem %v", p)
		mark, id := id[:1], id[1:]
		assert.Equal(t, mark, "\x01", "the mark")
		rule, sum := uint8(0), []byte(nil)
		if len(x.options) == 1 {
			rule = k.ruleNumber
			sum, err = k.rule.Sum(r.Header.Get("Content-Type"), r.URL.RawQuery, []byte(body))
			assert.NoError(t, err, "sum")
		}
		assert.Equal(t, fmt.Sprint(id, " ", rule, " ", len(sum)), tt.want, "%v", tt.o.Request.Fields)
	}
}

// TestMeaningFormat freezes the fingerprints of FingerprintJSON and the number of a rule.
func TestMeaningFormat(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]uint8{"$.ts": 115, "ts": 119} {
		o := Options{Request: RequestOptions{Fingerprint: FingerprintJSON, Rule: fingerprint.Rule{Ignore: []string{name}}}}
		m, err := o.fingerprintRule()
		assert.NoError(t, err, "meaning")
		assert.Equal(t, m.ruleNumber, mark, "the number of a rule that ignores %s", name)
		testMeaningFormat(t, m)
	}
}

func testMeaningFormat(t *testing.T, m *fingerprintRule) {
	t.Helper()
	for media, want := range map[string]string{
		"application/json": "883f22c3039dc7bb47689db9a171713a88991aa4b2328c825786b84e3fcf1f80",
		"text/plain":       "dd3567ce5147c07a1fc1e15e247f73bf06f8a9227850cc36869f3d6c8413331a",
	} {
		body := `{"a": [1.50]}`
		r := httptest.NewRequest("POST", "/a%2Fb?q=%61&q", strings.NewReader(body))
		r.Header.Set("Content-Type", media+"; charset=utf-8")
		assert.Equal(t, fmt.Sprintf("%x", m.digest(r, []byte(body))), want, "%s", media)
	}
}
