package journal

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestProgressFormat freezes version 1 of stored progress: what a build has written, every later
// build reads.
func TestProgressFormat(t *testing.T) {
	t.Parallel()
	kept := func(codec, body string) storeapi.Answer {
		return storeapi.Answer{Codec: codec, Body: []byte(body), Kept: true}
	}
	all := []Progress{
		{
			Plan: []string{"pay", "ship"}, Input: kept("json", `"tea"`),
			Steps: []Step{{Name: "pay", Finished: true, Answer: kept("json", `"r-1007"`)}, {Name: "ship"}},
		},
		{Steps: []Step{
			{Name: "large", Finished: true, Answer: storeapi.Answer{Codec: "raw", Size: 1 << 20, Digest: sha256.Sum256([]byte("x"))}},
			{Name: "nil", Finished: true, Answer: storeapi.Answer{Codec: "raw", Kept: true}},
			{Name: "<é>\"", Finished: true, Answer: kept("raw", "")},
		}, Reopened: 3},
	}
	var got strings.Builder
	for i := range all {
		a, err := all[i].Answer(7)
		assert.NoError(t, err, "answer")
		fmt.Fprintf(&got, "%s kept %v size %d %q\n", a.Codec, a.Kept, a.Size, a.Body)
	}
	const golden = "testdata/progress_v1.golden"
	assert.Golden(t, golden, got.String())
	text, err := os.ReadFile(golden)
	assert.NoError(t, err, "read")
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		_, quoted, _ := strings.Cut(line, " size 7 ")
		body, err := strconv.Unquote(quoted)
		assert.NoError(t, err, "line %d", i+1)
		back, err := Parse(&storeapi.Answer{Codec: "retrysafe/steps", Size: 7, Body: []byte(body)})
		assert.NoError(t, err, "read line %d", i+1)
		assert.Equal(t, back, all[i], "line %d", i+1)
	}
}
