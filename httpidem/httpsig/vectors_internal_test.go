package httpsig

import (
	"bufio"
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// The request of RFC 9421, appendix B.2, and its signatures B.2.5 and B.2.6.
const (
	rfcRequest = "POST /foo?param=Value&Pet=dog HTTP/1.1\r\nHost: example.com\r\nDate: Tue, 20 Apr 2021 02:07:55 GMT\r\n" +
		"Content-Type: application/json\r\n" +
		"Content-Digest: sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:\r\n" +
		"Content-Length: 18\r\n\r\n{\"hello\": \"world\"}"
	b25Input = `("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`
	b25      = "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8="
	b25Key   = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="
	b26Input = `("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`
	b26      = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
	b26Key   = "n4Ni+HpISpVObnQMW0wOhCKROaIKqKtW/2ZYb2p9KcU=" // the seed
	b26Base  = `"date": Tue, 20 Apr 2021 02:07:55 GMT
"@method": POST
"@path": /foo
"@authority": example.com
"content-type": application/json
"content-length": 18
"@signature-params": ` + b26Input
)

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	assert.NoError(t, err, "base64")
	return b
}

// TestVectorsOfTheRFC tests that the signatures of the standard are reproduced exactly, since both
// algorithms are deterministic.
func TestVectorsOfTheRFC(t *testing.T) {
	t.Parallel()
	shared, err := SharedKey(bytesOf(t, b25Key))
	assert.NoError(t, err, "key")
	ed, err := PrivateKey(ed25519.NewKeyFromSeed(bytesOf(t, b26Key)))
	assert.NoError(t, err, "key")
	for _, v := range []struct {
		key                    Key
		params, want, wantBase string
	}{{shared, b25Input, b25, ""}, {ed, b26Input, b26, b26Base}} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(rfcRequest)))
		assert.NoError(t, err, "request")
		m := &message{host: r.Host, header: r.Header, length: r.ContentLength}
		m.requestTarget, err = receivedTarget(r, "https")
		assert.NoError(t, err, "target")
		d, err := parseDictionary([]string{"sig=" + v.params})
		assert.NoError(t, err, "parameters")
		member, _ := d.Get("sig")
		in := new(parsedSignature)
		list, _ := member.(httpsfv.InnerList)
		assert.NoError(t, in.readComponents(list.Items), "components")
		params, err := httpsfv.Marshal(list)
		assert.NoError(t, err, "parameters")
		assert.Equal(t, params, v.params, "parameters, written again")
		base, err := m.appendBase(nil, in.names, params)
		assert.NoError(t, err, "base")
		if v.wantBase != "" {
			assert.Equal(t, string(base), v.wantBase, "base")
		}
		sig, err := v.key.sign(base)
		assert.NoError(t, err, "sign")
		assert.Equal(t, base64.StdEncoding.EncodeToString(sig), v.want, "signature")
		assert.True(t, v.key.verify(base, bytesOf(t, v.want)), "it is verified")
	}
	assert.NoError(t, checkDigest([]string{"sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"}, []byte(`{"hello": "world"}`)), "its digest")
}

// TestValues tests components as RFC 9421, section 2.2, writes them.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ host, uri, name, want string }{
		{"www.Example.com:443", "/path?param=value", "@authority", "www.example.com"},
		{"www.example.com:8443", "/path", "@authority", "www.example.com:8443"},
		{"www.example.com", "/path?param=value", "@path", "/path"},
		{"www.example.com", "https://www.example.com", "@path", "/"},
		{"www.example.com", "/path?param=value&foo=bar&baz=bat%2Dman", "@query", "?param=value&foo=bar&baz=bat%2Dman"},
		{"www.example.com", "/path?queryString", "@query", "?queryString"},
		{"www.example.com", "/path?", "@query", "?"},
		{"www.example.com", "/path", "@query", "?"},
		{"www.example.com", "/path?param=value", "@target-uri", "https://www.example.com/path?param=value"},
		{"www.example.com", "/path", "@scheme", "https"},
		{"www.example.com", "/path", "@method", "POST"},
		{"www.example.com", "/path", "x-empty", ""},
		{"www.example.com", "/path", "x-spaces", "a  b"},
	} {
		var err error
		m := &message{host: c.host, header: http.Header{"X-Empty": {""}, "X-Spaces": {"a  b"}}}
		m.requestTarget, err = targetOf("POST", "https", c.host, c.uri)
		assert.NoError(t, err, "target")
		got, err := m.componentValue(c.name)
		assert.True(t, err == nil && got == c.want, "%s of %s %s: %q, %v", c.name, c.host, c.uri, got, err)
	}
}
