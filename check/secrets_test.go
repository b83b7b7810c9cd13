package check_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNamedCredentialsAreSecret: fields that the target names as credentials, and those whose name
// says it, are not in the report.
func TestNamedCredentialsAreSecret(t *testing.T) {
	t.Parallel()
	url := rightPer(t, func(r *http.Request) string { return r.Header.Get("X-Shop-Login") + r.Header.Get("X-Auth-Token") })
	header := http.Header{"X-Shop-Login": {"login-secret"}, "X-Auth-Token": {"token-secret"}}
	url = strings.Replace(url, "http://", "http://ann:word-secret@", 1)
	report := examineCredentials(t, url, header, "x-shop-login")
	text, err := json.Marshal(report)
	assert.NoError(t, err, "examine and marshal")
	for _, secret := range []string{"login-secret", "token-secret", "word-secret"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the report has %s", secret)
		}
	}
	for _, variable := range []string{"$X_SHOP_LOGIN", "$X_AUTH_TOKEN", "$AUTHORIZATION"} {
		if !strings.Contains(string(text), variable) {
			t.Errorf("the report has no %s", variable)
		}
	}
}
