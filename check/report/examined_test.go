package report_test

import (
	"bytes"
	"net/http"
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/internal/servers"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// TestFormsOfAnExamination: what an examination of a broken shop finds fits every form.
func TestFormsOfAnExamination(t *testing.T) {
	t.Parallel()
	shops := servers.Broken()
	i := slices.IndexFunc(shops, func(s servers.Shop) bool { return s.Name == "forgets-body" })
	assert.True(t, i >= 0, "the shop")
	shop, err := servers.StartAnywhere(shops[i], t.TempDir(), freeport.Get)
	assert.NoError(t, err, "start")
	t.Cleanup(func() { shop.Close() })
	r, err := check.Examine(t.Context(), check.Target{
		Request: check.Request{
			URL: shop.URL("/payments"), Body: []byte(`{"amount":500,"currency":"EUR"}`),
			Header: http.Header{"Authorization": {servers.Ann}, "Content-Type": {"application/json"}},
		},
		Oracle: check.Page{URL: shop.URL("/effects"), Path: "$.total"},
	}, &check.Options{Only: []string{"sequential-duplicate", "other-body", "restart-after"}})
	assert.NoError(t, err, "examine")

	assert.NoError(t, validateJSON(t, compileSchema(t, report.Schema()), asJSON(t, r)), "JSON")
	assert.NoError(t, validateJSON(t, compileSchema(t, sarifSchema(t)), asSARIF(t, func(w *bytes.Buffer) error { return report.SARIF(w, r) })), "SARIF")
	assert.Equal(t, findViolations(asJUnit(t, r)), nil, "JUnit")
	for name, text := range map[string]string{
		"table": tableOf(t, r, report.Style{Width: 100}), "JSON": asJSON(t, r), "JUnit": asJUnit(t, r), "HTML": htmlOf(t, r),
	} {
		assert.Contains(t, text, "other-body", "%s", name)
		assert.Contains(t, text, "$AUTHORIZATION", "%s", name)
		assert.True(t, !bytes.Contains([]byte(text), []byte(servers.Ann)), "%s has no credentials", name)
	}
	assert.Contains(t, tableOf(t, r, report.Style{}), "Needs: ", "what the undecided check needs")
}
