package httpidem_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestWords: clients decide by the code, the status and the type of a problem, and read its
// members. The fields of HTTP are in internal/doctest.
func TestWords(t *testing.T) {
	t.Parallel()
	words := []string{"form field " + httpidem.TokenField}
	for _, code := range httpidem.Codes() {
		w := httptest.NewRecorder()
		httpidem.NewProblem(code, nil).ServeHTTP(w, nil)
		var p httpidem.Problem
		assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), "problem")
		assert.Equal(t, w.Code, p.Status, "status of %s", code)
		words = append(words, fmt.Sprintf("problem %s %d %s %s", p.Code, w.Code, p.Type, w.Header().Get("Content-Type")))
	}
	length := int64(1)
	for of, v := range map[string]any{
		"a problem": httpidem.Problem{Detail: "d", ErrorCode: 201, AnswerStatus: 200, AnswerLength: &length, AnswerSHA256: "s", Location: "/l"},
		"a status":  httpidem.Status{Attempt: 1, HTTPStatus: 201, RetryAfterSeconds: 1},
	} {
		text, err := json.Marshal(v)
		assert.NoError(t, err, "marshal")
		var members map[string]any
		assert.NoError(t, json.Unmarshal(text, &members), "unmarshal")
		for name := range members {
			words = append(words, "member of "+of+" "+name)
		}
	}
	assert.Words(t, "testdata/words.golden", words)
}
