package check_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestEachCallerHasItsVariable: in the lines of curl, the credentials of two callers are two
// variables, and so are wrong ones.
func TestEachCallerHasItsVariable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "wrong") || r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	ann := http.Header{"Authorization": {"Bearer ann"}, "X-Shop": {"first"}}
	report, err := check.Examine(t.Context(), check.Target{
		Request:     check.Request{URL: server.URL, Header: ann, Body: []byte(`{"a":1}`)},
		OtherCaller: http.Header{"Authorization": {"Bearer bob"}, "X-Shop": {"second"}},
	}, &check.Options{Only: []string{"other-caller", "no-credentials"}})
	assert.NoError(t, err, "examine")
	want := map[string][]string{
		"other-caller":   {"$AUTHORIZATION $X_SHOP", "$OTHER_AUTHORIZATION $OTHER_X_SHOP"},
		"no-credentials": {"$AUTHORIZATION $X_SHOP", "$X_SHOP", "$WRONG_AUTHORIZATION $X_SHOP"},
	}
	for _, r := range report.Results {
		for i, variables := range want[r.ID] {
			assert.True(t, i < len(r.Exchanges), "%s shows %d requests", r.ID, len(r.Exchanges))
			var got []string
			for word := range strings.FieldsSeq(r.Exchanges[i].Curl) {
				if strings.HasPrefix(word, "$") {
					got = append(got, strings.Trim(word, `"`))
				}
			}
			assert.Equal(t, strings.Join(got, " "), variables, "request %d of %s: %s", i+1, r.ID, r.Exchanges[i].Curl)
		}
	}
}
