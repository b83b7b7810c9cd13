package httpsig

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// FuzzSignature checks that, whatever the fields of signatures hold, the parsed result is bounded,
// has no duplicates, and is the same when it is parsed again from what was signed.
func FuzzSignature(f *testing.F) {
	params := `("@method" "@path" "content-type");created=1618884473;expires=1618884500;nonce="0123456789abcdef";keyid="k";tag="retrysafe"`
	f.Add("a="+params, "a=:AAAA:")
	f.Add("a="+params+", b=(\"@query\" \"x\";bs);tag=\"other\"", "a=:AAAA:, b=:BBBB:")
	f.Add("a="+params+",\ta="+params, "a=:AAAA:")
	f.Add(strings.Replace(params, "created", "a=("+params, 1), "a=?1;x=1.0")
	f.Add("a=();tag=\"retrysafe\";created=@1;alg=\"x\"", "a=:A")
	f.Fuzz(func(t *testing.T, inputs, values string) {
		h := http.Header{"Signature-Input": strings.Split(inputs, "\n"), "Signature": strings.Split(values, "\n")}
		in, err := findSignature(h, DefaultTag, false)
		if err != nil {
			return
		}
		assert.True(t, len(in.names) > 0 && len(in.names) <= maxComponents && len(in.value) > 0, "bounds")
		assert.True(t, len(in.nonce) >= minNonce && len(in.nonce) <= maxNonce && in.keyid != "" && in.tag == DefaultTag, "parameters")
		again, err := findSignature(http.Header{
			"Signature-Input": {"x=" + in.params},
			"Signature":       {"x=" + text(t, in.value)},
		}, DefaultTag, false)
		assert.NoError(t, err, "what was signed: %q", in.params)
		assert.Equal(t, again, in, "what was signed")
		m := &message{requestTarget: requestTarget{"POST", "https", "host.example", "/", "?q"}, header: http.Header{}}
		for _, name := range in.names {
			if isFieldName(name) {
				m.header.Set(name, "v")
			}
		}
		base, err := m.appendBase(nil, in.names, in.params)
		if err == nil {
			assert.Equal(t, bytes.Count(base, []byte("\n")), len(in.names), "lines of the base")
		}
	})
}

func text(t *testing.T, value []byte) string {
	t.Helper()
	s, err := httpsfv.Marshal(httpsfv.NewItem(value))
	assert.NoError(t, err, "value")
	return s
}

// FuzzContentDigest checks that only a digest of the body itself is accepted.
func FuzzContentDigest(f *testing.F) {
	f.Add(contentDigest([]byte("tea")), []byte("tea"))
	f.Add("md5=:AAAA:, "+contentDigest(nil), []byte(""))
	f.Add("sha-256=:AAAA:;x=1,sha-512=(1 2)", []byte("tea"))
	f.Add("sha-256=:AAAA:, sha-256=:BBBB:", []byte("tea"))
	f.Fuzz(func(t *testing.T, field string, body []byte) {
		assert.NoError(t, checkDigest([]string{contentDigest(body)}, body), "our own")
		if checkDigest([]string{field}, body) != nil {
			return
		}
		assert.True(t, checkDigest([]string{field}, append(body[:len(body):len(body)], 'x')) != nil, "%q is good for two bodies", field)
		right := strings.Contains(field, strings.TrimPrefix(contentDigest(body), "sha-256=")) || strings.Contains(field, "sha-512=")
		assert.True(t, right, "%q holds the digest", field)
	})
}

// FuzzTarget checks that a target is split into path and query at its first question mark, and that
// nothing is lost.
func FuzzTarget(f *testing.F) {
	for _, uri := range []string{"/a%2Fb?c", "http://h/p?q", "*", "//x", "https://h?q", "ftp://x/", "?", ""} {
		f.Add("bank.example:443", uri)
	}
	f.Fuzz(func(t *testing.T, host, uri string) {
		got, err := targetOf("POST", "https", host, uri)
		if err != nil {
			return
		}
		assert.True(t, strings.HasPrefix(got.path, "/") && !strings.Contains(got.path, "?"), "path %q", got.path)
		assert.True(t, got.query == "" || got.query[0] == '?', "query %q", got.query)
		assert.True(t, strings.HasSuffix(uri, strings.TrimPrefix(got.path+got.query, "/")), "%q of %q", got.path+got.query, uri)
		assert.Equal(t, got.authority, strings.ToLower(got.authority), "authority")
	})
}
