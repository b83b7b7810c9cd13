package etag_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/guard/etag"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func request(fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPut, "/", http.NoBody)
	for _, f := range fields {
		r.Header.Add("If-Match", f)
	}
	return r
}

// TestIfMatch: IfMatch returns the version that Format wrote, and its errors differ by what the
// client can do about them.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	for _, v := range []int64{0, 1, 17, -4, 1<<63 - 1} {
		got, err := etag.IfMatch(request(etag.Format(v)))
		assert.NoError(t, err, "version %d", v)
		assert.Equal(t, got, v, "version")
	}
	for _, c := range []struct {
		fields []string
		want   error
	}{
		{nil, etag.ErrRequired},
		{[]string{""}, etag.ErrRequired},
		{[]string{" , "}, etag.ErrRequired},
		{[]string{"*"}, etag.ErrRequired},
		{[]string{`"1", "2"`}, etag.ErrRequired},
		{[]string{`"1"`, `"2"`}, etag.ErrRequired},
		{[]string{`"1"`, `"1"`}, nil},
		{[]string{` "1" , ,`}, nil},
		{[]string{`1`}, etag.ErrMalformed},
		{[]string{`"1`}, etag.ErrMalformed},
		{[]string{`"1" "2"`}, etag.ErrMalformed},
		{[]string{`"1", 2`}, etag.ErrMalformed},
		{[]string{`"1 "`}, etag.ErrMalformed},
		{[]string{`w/"1"`}, etag.ErrMalformed},
		{[]string{`W/"1"`}, etag.ErrNoMatch},
		{[]string{`"abc"`}, etag.ErrNoMatch},
		{[]string{`"01"`}, etag.ErrNoMatch},
		{[]string{`"+1"`}, etag.ErrNoMatch},
		{[]string{`""`}, etag.ErrNoMatch},
		{[]string{`"9223372036854775808"`}, etag.ErrNoMatch},
	} {
		_, err := etag.IfMatch(request(c.fields...))
		assert.True(t, errors.Is(err, c.want) || err == nil && c.want == nil, "%q: %v, want %v", c.fields, err, c.want)
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	for status, errs := range map[int][]error{
		http.StatusPreconditionRequired: {etag.ErrRequired},
		http.StatusBadRequest:           {etag.ErrMalformed},
		http.StatusPreconditionFailed:   {etag.ErrNoMatch, fmt.Errorf("secret: %w", guard.ErrStale)},
		http.StatusNotFound:             {guard.ErrMissing},
	} {
		for _, err := range errs {
			w := httptest.NewRecorder()
			assert.True(t, etag.Refuse(w, err), "%v is answered", err)
			assert.Equal(t, w.Code, status, "status of %v", err)
			assert.Contains(t, w.Body.String(), `"status":`+strconv.Itoa(status), "body")
			assert.Equal(t, w.Header().Get("Content-Type"), "application/problem+json", "type")
			assert.True(t, !strings.Contains(w.Body.String(), "secret"), "the answer quotes no error")
		}
	}
	for _, err := range []error{nil, errors.New("x"), guard.ErrMisuse} {
		w := httptest.NewRecorder()
		assert.True(t, !etag.Refuse(w, err) && w.Body.Len() == 0, "%v is not answered", err)
	}
}

// FuzzIfMatch: IfMatch accepts only what Format writes, and nothing panics.
func FuzzIfMatch(f *testing.F) {
	for _, seed := range []string{"", "*", `"1"`, `W/"1"`, `"1", "2"`, `"1",,"1"`, `"`, `W/`, `"a b"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, field string) {
		v, err := etag.IfMatch(request(field))
		if err == nil {
			assert.Contains(t, field, etag.Format(v), "what was accepted")
			return
		}
		assert.True(t, etag.Status(err) != 0, "%v has a status", err)
	})
}

// The server sends a row's version as an ETag and reads it back from If-Match. Without it the
// status is 428, with an old one 412.
func Example() {
	version := int64(3)
	put := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, err := etag.IfMatch(r)
		if err == nil && seen != version {
			err = guard.ErrStale // guard.Version.Update would get this from the database
		}
		switch {
		case etag.Refuse(w, err):
			return
		case err != nil: // of the database, for example; the write may have happened
			http.Error(w, "try again with the same key", http.StatusServiceUnavailable)
			return
		}
		version++
		w.Header().Set("ETag", etag.Format(version))
	})
	for _, field := range []string{"", `"2"`, `"3"`} {
		w := httptest.NewRecorder()
		put.ServeHTTP(w, request(field))
		fmt.Printf("If-Match: %s is answered %d\n", field, w.Code)
	}
	// Output:
	// If-Match:  is answered 428
	// If-Match: "2" is answered 412
	// If-Match: "3" is answered 200
}
