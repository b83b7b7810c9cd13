package httpidem

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
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
		{Options{Key: Params, Rule: fingerprint.Rule{Ignore: []string{"ts"}, NumbersAsWritten: true}}, "AU3EzE0ldPtjv0twXGJwa6cq8eXgMi4X0RAnETfXvyjF 0 0"},
		{Options{Key: Fields, Fields: []string{"$.poll", "query:q", "header:x-v"}}, "GEdgNSmX3XKNrs8i73t3EwutZo5Y_oASS3ayUiFoTNE 24 33"},
		{Options{Key: Fields, Fields: []string{"header:X-V", "query:q", "/poll"}, Rule: fingerprint.Rule{Ignore: []string{"ts"}}}, "GEdgNSmX3XKNrs8i73t3EwutZo5Y_oASS3ayUiFoTNE 61 33"},
	} {
		k, err := tt.o.maker()
		assert.NoError(t, err, "maker")
		body := `{"poll":7,"ts":1}`
		r := httptest.NewRequest("POST", "/votes?q=a", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-V", "v")
		var c retrysafe.Call
		id, p := k.make(r, []byte(body), &c)
		assert.True(t, p == nil, "problem %v", p)
		mark, id := id[:1], id[1:]
		assert.Equal(t, mark, "\x01", "the mark")
		assert.Equal(t, fmt.Sprint(id, " ", c.FingerprintRule, " ", len(c.Fingerprint)), tt.want, "%v", tt.o.Fields)
	}
}
