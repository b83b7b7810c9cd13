package fingerprint_test

import (
	"crypto/md5"
	"encoding/hex"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestLegacy(t *testing.T) {
	t.Parallel()
	r := fingerprint.Rule{Ignore: append([]string{"$.geo.x"}, fingerprint.TimeFields()...)}
	c := compile(t, r)
	digest := md5.Sum([]byte(`a=1&b=query&b=x"y&c=true&geo={"y":[1]}&n=null`))
	want := "dedup:U=7M=payP=" + hex.EncodeToString(digest[:])
	for _, body := range []string{`{"n":null,"geo":{"x":1,"y":[1.0]},"c":true,"b":"x\"y","timestamp":5}`, ` {"b":"x\u0022y","c":true,"ts":1,"n":null,"geo":{"y":[1]}}`} {
		got, err := r.Legacy("dedup", "7", "pay", "b=query&a=1&_=5", []byte(body))
		assert.NoError(t, err, "Legacy")
		assert.Equal(t, got, want, "the key")
	}
	plain, err := c.LegacyPlain("7", "pay", "b=2", []byte("c=%41&a=1&ts=9"))
	assert.NoError(t, err, "LegacyPlain")
	assert.Equal(t, plain, "7:pay:a=1&b=2&c=A", "the earlier form")
	_, err = c.LegacyPlain("7", "pay", "b=%", nil)
	assert.ErrorIs(t, err, fingerprint.ErrMalformed, "LegacyPlain of a bad query")
	_, err = c.Legacy("dedup", "7", "pay", "", []byte(`{"a":1`))
	assert.ErrorIs(t, err, fingerprint.ErrMalformed, "Legacy of half a body")
}

// TestLegacyIsAmbiguous shows why the form is for compatibility only: different requests have the
// same key, while their Sums differ.
func TestLegacyIsAmbiguous(t *testing.T) {
	t.Parallel()
	c := compile(t, everything)
	for _, pair := range [][2]string{
		{`{"to":"ann&zone=1"}`, `{"to":"ann","zone":"1"}`},
		{`{"amount":"5"}`, `{"amount":5}`},
		{`{"a":"b=c"}`, `{"a=b":"c"}`},
	} {
		var keys [2]string
		for i, body := range pair {
			var err error
			keys[i], err = c.Legacy("dedup", "7", "pay", "", []byte(body))
			assert.NoError(t, err, "Legacy of %s", body)
		}
		assert.Equal(t, keys[0], keys[1], "the keys of %q", pair)
		assert.NotEqual(t, sum(t, c, jsonType, "", pair[0]), sum(t, c, jsonType, "", pair[1]), "the sums of %q", pair)
	}
	one, err := c.Legacy("dedup", "7M=pay", "x", "", nil)
	assert.NoError(t, err, "Legacy")
	two, err := c.Legacy("dedup", "7", "payM=x", "", nil)
	assert.NoError(t, err, "Legacy")
	assert.Equal(t, one, two, "keys of two users")
}
