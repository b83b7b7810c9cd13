package reqfield_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

func request(contentType, query, body string) *http.Request {
	r := httptest.NewRequest("POST", "/x?"+query, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header["X-Id"] = []string{"h"}
	return r
}

func TestOf(t *testing.T) {
	t.Parallel()
	const body = `{"a":"x","b":{"c":9007199254740991,"g":9007199254740992,"d.e":"y","f/g~":"z"},"A2":1,"":"q"}`
	for field, want := range map[string]string{
		"a": "x", "$.a": "x", "/a": "x", "$.b.c": "9007199254740991", "/b/d.e": "y", "/b/f~1g~0": "z", "header:x-id": "h", "query:q": "1 2",
	} {
		f, err := reqfield.Parse(field)
		assert.NoError(t, err, "%s", field)
		got, err := f.Of(reqfield.In(request("application/json", "q=1+2&r", body), []byte(body)))
		assert.NoError(t, err, "%s", field)
		assert.Equal(t, got, want, "%s", field)
	}
	for _, field := range []string{"b", "$.b.g", "$.a.x", "$.c", "/b/c/d", "header:X-No", "query:r", "query:s", "a2"} {
		f, err := reqfield.Parse(field)
		assert.NoError(t, err, "%s", field)
		got, err := f.Of(reqfield.In(request("application/json", "q=1+2&r", body), []byte(body)))
		assert.True(t, err != nil && got == "", "%s: %q, %v", field, got, err)
		assert.True(t, !strings.Contains(err.Error(), "9007199254740992"), "%s: the error shows a value: %v", field, err)
	}
	for _, field := range []string{"", "$.", "$.a.", "/", "a[0]", "$.a[*]", "header:", "query:", "header:a b", "\xff", "header:Host", "headers:X-Id", "a:b"} {
		_, err := reqfield.Parse(field)
		assert.True(t, err != nil, "%q is no field", field)
	}
}

// TestNames: a field has one name, however it is written.
func TestNames(t *testing.T) {
	t.Parallel()
	for a, b := range map[string]string{"a": "$.a", "$.a.b": "/a/b", "header:x-id": "header:X-Id", "/a": "a"} {
		one, err := reqfield.Parse(a)
		assert.NoError(t, err, "%s", a)
		other, err := reqfield.Parse(b)
		assert.NoError(t, err, "%s", b)
		assert.Equal(t, one.Name(), other.Name(), "%s and %s", a, b)
	}
	one, _ := reqfield.Parse("/a~1b")
	other, _ := reqfield.Parse("/a/b")
	assert.True(t, one.Name() != other.Name(), "a slash in a name is no step")
}

// FuzzBody: for any body, a value that is found is the one that a service finds, and a second place
// for it is refused.
func FuzzBody(f *testing.F) {
	f.Add("application/json", `{"id":"a"}`)
	f.Add("application/json", `{"id":1,"ID":2}`)
	f.Add("application/x-www-form-urlencoded", "id=a&b=c")
	f.Add("application/x-www-form-urlencoded", "id=a&Id=b;id=c")
	f.Add("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\na\r\n--b--\r\n")
	id, err := reqfield.Parse("id")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, contentType, body string) {
		r := request("", "", body)
		r.Header["Content-Type"] = []string{contentType}
		got, err := id.Of(reqfield.In(r, []byte(body)))
		if err != nil {
			assert.True(t, errors.Is(err, reqfield.ErrAbsent) || len(err.Error()) < 200, "error %v", err)
			assert.Equal(t, got, "", "with an error")
			return
		}
		assert.True(t, got != "", "a value is not empty")
		if strings.Contains(contentType, "form") && !strings.Contains(contentType, "json") {
			if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
				return
			}
			assert.Equal(t, r.PostForm["id"], []string{got}, "what a handler finds")
		}
	})
}
