package check_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestPageOfOptions: an examination asks the page by the certificates of the options.
func TestPageOfOptions(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n.Add(1)
		}
		_, _ = fmt.Fprint(w, n.Load())
	}))
	t.Cleanup(server.Close)
	for _, oracle := range []check.Oracle{check.Page{URL: server.URL + "/total"}, &check.Page{URL: server.URL + "/total"}} {
		_, err := check.Examine(t.Context(), check.Target{
			Request: check.Request{URL: server.URL + "/orders", Body: []byte("{}")}, Oracle: oracle,
		}, &check.Options{TLS: &tls.Config{InsecureSkipVerify: true}, Only: []string{"new-key"}})
		assert.NoError(t, err, "examine")
	}
}

// TestPageOfOtherHost: credentials are not sent to a page of a host that is not allowed.
func TestPageOfOtherHost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	_, err := check.Examine(t.Context(), check.Target{
		Request: check.Request{URL: server.URL + "/orders", Body: []byte("{}")},
		Oracle:  check.Page{URL: "http://192.0.2.1/total"}, // RFC 5737: no host has it
	}, &check.Options{Only: []string{"new-key"}})
	assert.True(t, err != nil && strings.Contains(err.Error(), "--allow 192.0.2.1"), "the error says what to allow: %v", err)
}
