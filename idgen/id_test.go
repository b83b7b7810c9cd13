package idgen_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestIDForms(t *testing.T) {
	t.Parallel()
	var shorts []string
	for _, id := range []idgen.ID{1, 31, 32, 7204573214593024, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		text, err := json.Marshal(map[string]idgen.ID{"id": id})
		assert.NoError(t, err, "marshal")
		assert.Equal(t, string(text), fmt.Sprintf(`{"id":"%d"}`, int64(id)), "a string in JSON")
		var back struct{ ID idgen.ID }
		assert.NoError(t, json.Unmarshal(text, &back), "unmarshal")
		assert.Equal(t, back.ID, id, "through JSON")
		s := id.Short()
		assert.Equal(t, len(s), 13, "length of %s", s)
		shorts = append(shorts, s)
		for _, spelled := range []string{s, strings.ToUpper(s), strings.NewReplacer("0", "o", "1", "l").Replace(s), strings.NewReplacer("0", "O", "1", "I").Replace(s)} {
			got, err := idgen.ParseShort(spelled)
			assert.NoError(t, err, "%s", spelled)
			assert.Equal(t, got, id, "%s", spelled)
		}
		var scanned idgen.ID
		v, err := id.Value()
		assert.NoError(t, err, "value")
		assert.NoError(t, scanned.Scan(v), "scan")
		assert.Equal(t, scanned, id, "through SQL")
		assert.NoError(t, scanned.Scan([]byte(id.String())), "scan a text")
	}
	assert.True(t, slices.IsSorted(shorts), "short ids sort as ids do: %v", shorts)
	var id idgen.ID
	for _, text := range []string{`"0"`, `"-1"`, `"01"`, `"+1"`, `""`, `" 1"`, `1.5`, `"1e3"`, `"9223372036854775808"`, `9007199254740992`, `0`, `-1`, `true`, `{}`, `"x"`} {
		assert.True(t, json.Unmarshal([]byte(text), &id) != nil, "%s is refused", text)
	}
	assert.NoError(t, json.Unmarshal([]byte(`9007199254740991`), &id), "a number that is exact everywhere")
	assert.NoError(t, json.Unmarshal([]byte(`null`), &id), "null")
	for _, text := range []string{"", "0", "0000000000000", "zzzzzzzzzzzzz", "8000000000000", "000000000000u", "00000000000-1", "00000000000001", "ééé0000000"} {
		_, err := idgen.ParseShort(text)
		assert.True(t, err != nil, "%q is refused", text)
	}
	for _, v := range []any{nil, int64(0), int64(-1), 1.5, "x", []byte("0")} {
		assert.True(t, id.Scan(v) != nil, "%v is refused", v)
	}
}

// FuzzParseShort: Short writes what ParseShort has read, except for the spelling.
func FuzzParseShort(f *testing.F) {
	f.Add("0000000000001")
	f.Add("7ZZZZZZZZZZZZ")
	f.Add("OIL0000000000")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := idgen.ParseShort(s)
		if err != nil {
			assert.Equal(t, id, idgen.ID(0), "with an error")
			return
		}
		again, err := idgen.ParseShort(id.Short())
		assert.NoError(t, err, "its own short form")
		assert.True(t, again == id && id > 0, "%q is %d, and then %d", s, id, again)
	})
}
