package admin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestWords: programs call the API by these paths, operations and parameters, and read these
// members.
func TestWords(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(admin.OpenAPI())
	assert.NoError(t, err, "marshal")
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In string }
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	assert.NoError(t, json.Unmarshal(text, &doc), "unmarshal")
	words := []string{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			line := fmt.Sprintf("%s %s %s", strings.ToUpper(method), path, op.OperationID)
			words = append(words, line)
			for _, p := range op.Parameters {
				words = append(words, fmt.Sprintf("%s: %s %s", op.OperationID, p.In, p.Name))
			}
		}
	}
	for schema, s := range doc.Components.Schemas {
		for name := range s.Properties {
			words = append(words, "member of "+schema+" "+name)
		}
	}
	assert.Words(t, "testdata/words.golden", words)
}
