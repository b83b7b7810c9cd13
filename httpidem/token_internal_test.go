package httpidem

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// formKeys reads tokens.
var formKeys = &Middleware{o: Options{Key: Token}}

// FuzzForm checks that the value that is used as the token is the one that a handler finds in the
// form, whatever else the form has.
func FuzzForm(f *testing.F) {
	f.Add(formURL, []byte("item=tea&idempotency_key=abc"))
	f.Add(formURL, []byte("idempotency%5Fkey=a%20b&=&&%zz=1&a;b=2"))
	f.Add(formURL, []byte("idempotency_key=a;idempotency_key=b&idempotency_key=%zz"))
	f.Add(formData+"; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"idempotency_key\"\r\n\r\nabc\r\n--b--\r\n"))
	f.Add(formData+"; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=idempotency_key; filename=x\r\n\r\nabc\r\n--b\r\n\r\n\r\n--b--"))
	f.Add(formData+"; boundary=b", []byte("--b\nContent-Disposition:form-data;name=\"idempotency_key\"\n\n0\n--b"))
	f.Add(formData+"; boundary=\"\"", []byte("--"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		h := http.Header{"Content-Type": {contentType}}
		if !isForm(&http.Request{Header: h}) {
			return
		}
		before := bytes.Clone(body)
		got, p := formKeys.formKey(h, body)
		assert.Equal(t, string(body), string(before), "the body afterwards")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		assert.NoError(t, err, "request")
		r.Header = h
		_ = r.ParseMultipartForm(1 << 20)
		values := r.PostForm[TokenField]
		if p == nil {
			if strings.Contains(got, ";") {
				return // net/http drops such a pair; no token has one
			}
			files := r.MultipartForm != nil && len(r.MultipartForm.File[TokenField]) > 0
			assert.True(t, files || len(values) == 1 && values[0] == got, "the token is %q, and a handler finds %q", got, values)
			return
		}
		assert.True(t, p.Code == "token-missing" || p.Code == "token-refused", "code %s", p.Code)
		if len(values) == 1 && values[0] != "" && len(values[0]) <= maxKey && p.Code == "token-missing" {
			_, params := formType(h)
			_, err := multipart.NewReader(bytes.NewReader(body), params).ReadForm(1 << 20)
			assert.True(t, err != nil, "a handler finds %q, and the guard none", values)
		}
	})
}

// TestURLFields tests that only as much of a long pair is read as is needed, and that two values
// are enough.
func TestURLFields(t *testing.T) {
	t.Parallel()
	long := url.QueryEscape(string(bytes.Repeat([]byte("é"), 2000)))
	for body, want := range map[string]string{
		"idempotency_key=a": "a", "a=b&idempotency_key=a%2Db+c&c": "a-b c", "idempotency_key=": "token-missing", "idempotency_key": "token-missing",
		"Idempotency_key=a": "token-missing", "idempotency_key[]=a": "token-missing", "idempotency_key=a&idempotency_key=": "token-refused",
		"idempotency_key=" + long: "token-refused", "idempotency_key=%6": "token-refused", "": "token-missing", "&&": "token-missing",
	} {
		got, p := formKeys.formKey(http.Header{"Content-Type": {formURL}}, []byte(body))
		if p != nil {
			got = p.Code
		}
		assert.Equal(t, got, want, "%.60s", body)
	}
}
