package httpidem_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func answered(status int, kind, after string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}, "Retry-After": {after}}, Body: io.NopCloser(body)}
}

func TestProblemFrom(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind, after, body string
		want              string // code, status, error_code, seconds
	}{
		"ours":                  {"application/problem+json", "3", `{"code":"in-progress","status":409,"error_code":201}`, "in-progress 409 201 3"},
		"with parameters":       {"Application/Problem+JSON; charset=utf-8", "", `{"code":"x"}`, "x 409 0 0"},
		"the status counts":     {"application/problem+json", "0", `{"status":200}`, " 409 0 1"},
		"odd types are ignored": {"application/problem+json", "x", `{"code":"x","status":"no","error_code":1e99,"title":[1]}`, "x 409 0 0"},
		"a long wait":           {"application/problem+json", "99999999999999999999", `{}`, " 409 0 2147483647"},
		"a date":                {"application/problem+json", "Sat, 01 Jan 2000 00:00:00 GMT", `{}`, " 409 0 1"},
		"JSON of another kind":  {"application/json", "", `{"code":"x"}`, "none"},
		"a list":                {"application/problem+json", "", `[{"code":"x"}]`, "none"},
		"null":                  {"application/problem+json", "", `null`, "none"},
		"broken":                {"application/problem+json", "", `{"code":"x"`, "none"},
		"more behind it":        {"application/problem+json", "", `{"code":"x"}{}`, "none"},
		"too large":             {"application/problem+json", "", `{"code":"x"}` + strings.Repeat(" ", 64<<10), "none"},
		"the largest":           {"application/problem+json", "", `{"code":"x"}` + strings.Repeat(" ", 64<<10-12), "x 409 0 0"},
		"no body":               {"application/problem+json", "", ``, "none"},
	} {
		resp, got := answered(409, tt.kind, tt.after, strings.NewReader(tt.body)), "none"
		for range 2 {
			if p, ok := httpidem.ProblemFrom(resp); ok {
				got = fmt.Sprint(p.Code, " ", p.Status, " ", p.ErrorCode, " ", p.RetrySeconds())
			}
			assert.Equal(t, got, tt.want, "%s", name)
		}
		b, err := io.ReadAll(resp.Body)
		assert.True(t, string(b) == tt.body && err == nil, "%s: the body is whole: %v", name, err)
	}

	broken := errors.New("cut")
	resp := answered(409, "application/problem+json", "", io.MultiReader(strings.NewReader(`{"code":"x"}`), &failing{broken}))
	_, ok := httpidem.ProblemFrom(resp)
	b, err := io.ReadAll(resp.Body)
	assert.Equal(t, fmt.Sprintf("%v %s %v", ok, b, err), `false {"code":"x"} cut`, "a body that breaks off does so for the caller too")
}

// TestProblemsThereAndBack tests that each problem of this package is parsed as it was written.
func TestProblemsThereAndBack(t *testing.T) {
	t.Parallel()
	for _, code := range httpidem.Codes() {
		w, want := httptest.NewRecorder(), httpidem.NewProblem(code, nil).WithRetryAfter(2*time.Second)
		want.ServeHTTP(w, nil)
		want.Type = httpidem.DefaultDocs + code + ".md" // if none was set
		got, ok := httpidem.ProblemFrom(w.Result())
		assert.True(t, ok, "%s is read", code)
		assert.Equal(t, got, want, "%s", code)
	}
}

func FuzzProblemFrom(f *testing.F) {
	f.Add(409, "application/problem+json", "1", `{"code":"in-progress","error_code":201}`)
	f.Add(504, "application/problem+json;a=b", "Sat, 01 Jan 2000 00:00:00 GMT", `{"code":1,"status":{}}`)
	f.Add(200, "x", "-1", ` [`)
	f.Fuzz(func(t *testing.T, status int, kind, after, body string) {
		resp := answered(status, kind, after, strings.NewReader(body))
		p, ok := httpidem.ProblemFrom(resp)
		if ok && (p.Status != status || p.RetrySeconds() < 0 || len(body) > 64<<10) {
			t.Fatalf("status %d is read as %d, %d seconds, %d bytes", status, p.Status, p.RetrySeconds(), len(body))
		}
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != body {
			t.Fatalf("the body is not whole: %q, %v", b, err)
		}
	})
}

func FuzzFormatKey(f *testing.F) {
	for _, s := range []string{"", "abc", `a"b\c`, " ", "a,b;c", "\x7f", "\u00e9", strings.Repeat(`"`, 255), strings.Repeat("x", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		line, err := httpidem.FormatKey(key)
		if err != nil {
			if line != "" || len(key) > 20 && strings.Contains(err.Error(), key) {
				t.Fatalf("%q: a refused key is given back or shown: %q, %v", key, line, err)
			}
			if fits := key != "" && len(key) <= 255 && strings.Trim(key, printable) == ""; fits {
				t.Fatalf("%q is refused: %v", key, err)
			}
			return
		}
		if got, err := httpidem.ParseKey([]string{line}); err != nil || got != key {
			t.Fatalf("%q is written %q and read %q, %v", key, line, got, err)
		}
		if line != strings.TrimSpace(line) || line[0] != '"' && strings.Contains(line, " ") {
			t.Fatalf("%q is written %q, which a field does not keep", key, line)
		}
	})
}

var printable = func() string {
	var b strings.Builder
	for c := byte(0x20); c <= 0x7E; c++ {
		b.WriteByte(c)
	}
	return b.String()
}()
