package fingerprint_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestForms(t *testing.T) {
	t.Parallel()
	c := compile(t, fingerprint.Rule{Ignore: []string{"ts", "$.at"}})
	form := func(body string) string { return sum(t, c, formType, "", body) }
	query := func(q string) string { return sum(t, c, "", q, "") }
	for _, f := range []func(string) string{form, query} {
		assert.Equal(t, f("b=2&a=1&ts=5&a=3"), f("a=%31&&a=3&%62=2"), "order between names, escapes")
		assert.Equal(t, f("a=x+y&b"), f("b=&a=x%20y"), "spaces, no value")
		texts := []string{"a=1&a=2", "a=2&a=1", "a=1", "a=1%262", "a=1&b=2", "a=1%26b=2", "a=1%26b%3D2", "a%3D1=", "a=1;b=2", "A=1", "b=1", "a=1&a=1", "=1", "a=%00", "a=%ff", "a=%01b&b=", "a=&b=%01b"}
		seen := map[string]string{}
		for _, text := range texts {
			first, twice := seen[f(text)]
			if twice && text != "a=1%26b%3D2" { // which is a=1%26b=2 in another spelling
				t.Fatalf("%s and %s have one sum", first, text)
			}
			seen[f(text)] = text
		}
	}
	assert.Equal(t, form("at=1&a=2"), form("a=2"), "a path is a field of a form")
	assert.NotEqual(t, query("at=1&a=2"), query("a=2"), "a path is none of the query")
	for _, bad := range []string{"secret=%zz", "%secret=1", "a=1&b=%4"} {
		for _, do := range []func() error{
			func() error { _, err := c.Sum(formType, "", []byte(bad)); return err },
			func() error { _, err := c.Sum("", bad, nil); return err },
			func() error { _, err := c.LegacyParams(bad, nil); return err },
			func() error { _, err := c.LegacyParams("", []byte(bad)); return err },
		} {
			err := do()
			assert.ErrorIs(t, err, fingerprint.ErrMalformed, "%s", bad)
			assert.True(t, !strings.Contains(err.Error(), "secret") && !strings.Contains(err.Error(), "zz"), "the error %q quotes nothing", err)
		}
	}
	kept := compile(t, fingerprint.Rule{Only: []string{"id"}})
	assert.Equal(t, sum(t, kept, formType, "id=1&x=2", "y=3"), sum(t, kept, formType, "id=1", "z=4"), "only the named")
	_, err := kept.Sum(formType, "x=1", []byte("y=2"))
	assert.ErrorIs(t, err, fingerprint.ErrNothingKept, "no field of Only")
	_, err = kept.Sum("", "", nil)
	assert.ErrorIs(t, err, fingerprint.ErrNothingKept, "an empty request")
	_, err = kept.LegacyParams("x=1", []byte("y=2"))
	assert.ErrorIs(t, err, fingerprint.ErrNothingKept, "no field of Only")
}

// TestKindsDoNotMeet: what is sent as one kind of body, or in the query, never has the sum of
// another kind.
func TestKindsDoNotMeet(t *testing.T) {
	t.Parallel()
	c := compile(t, everything)
	seen := map[string]string{}
	for _, r := range [][3]string{
		{"", "", ""},
		{"", "a=1", ""},
		{formType, "", "a=1"},
		{"text/plain", "", "a=1"},
		{"", "", "a=1"},
		{formType, "a=1", "a=1"},
		{formType, "a=1&a=1", ""},
		{jsonType, "", "1"},
		{"text/plain", "", "1"},
		{"", "", "1"},
		{formType, "", "1"},
		{"", "1", ""},
		{"application/merge-patch+json", "", "1"},
		{"text/plain", "", "1 "},
		{"a", "", "bc"},
		{"ab", "", "c"},
		{"", "a", "b"},
		{"", "", "ab"},
		{"multipart/mixed; boundary=x", "", "--x--"},
		{"multipart/form-data; boundary=x", "", "--x--"},
		{formType, "", "&"},
	} {
		got := sum(t, c, r[0], r[1], r[2])
		assert.Equal(t, seen[got], "", "what has the sum of %q", r)
		seen[got] = fmt.Sprint(r)
	}
	assert.Equal(t, sum(t, c, "Application/JSON ; charset=utf-8", "", "1"), sum(t, c, jsonType, "", "1.0"), "parameters and case of the media type")
	assert.Equal(t, sum(t, c, jsonType, "", ""), sum(t, c, "", "", ""), "an empty body")
	assert.NotEqual(t, sum(t, c, jsonType, "", "1"), sum(t, compile(t, fingerprint.Rule{NumbersAsWritten: true}), jsonType, "", "1"), "numbers by value and as written")
}

type part struct{ name, file, media, body string }

func encode(tb testing.TB, boundary string, parts ...part) (contentType, body string) {
	tb.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	assert.NoError(tb, w.SetBoundary(boundary), "SetBoundary")
	for _, p := range parts {
		head := textproto.MIMEHeader{}
		disposition := fmt.Sprintf("form-data; name=%q", p.name)
		if p.file != "" {
			disposition += fmt.Sprintf("; filename=%q", p.file)
		}
		head.Set("Content-Disposition", disposition)
		if p.media != "" {
			head.Set("Content-Type", p.media)
		}
		pw, err := w.CreatePart(head)
		assert.NoError(tb, err, "CreatePart")
		_, err = pw.Write([]byte(p.body))
		assert.NoError(tb, err, "Write")
	}
	assert.NoError(tb, w.Close(), "Close")
	return w.FormDataContentType(), b.String()
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	c := compile(t, fingerprint.Rule{Ignore: []string{"ts"}})
	of := func(boundary string, parts ...part) string {
		contentType, body := encode(t, boundary, parts...)
		return sum(t, c, contentType, "", body)
	}
	a, f := part{name: "a", body: "1"}, part{"f", "photo.png", "image/png", "\x00\r\n--x\r\n"}
	assert.Equal(t, of("one", a, f), of("another", f, part{name: "ts", body: "7"}, a), "boundary, order between names, a field left out")
	seen := map[string]int{}
	for i, parts := range [][]part{
		{a},
		{f},
		{a, f},
		{a, a},
		{part{name: "a", body: "2"}},
		{part{name: "a", body: "1"}, part{name: "a", body: "2"}},
		{part{name: "a", body: "2"}, part{name: "a", body: "1"}},
		{part{"f", "other.png", f.media, f.body}},
		{part{"f", "照片.png", f.media, f.body}},
		{part{"f", f.file, "image/gif", f.body}},
		{part{"f", f.file, f.media, f.body + "\n"}},
		{part{"f", "", f.media, f.body}},
		{part{name: "a"}},
		{part{"a", "1", "", ""}},
		{part{"a", "", "1", ""}},
		{},
	} {
		got := of("b", parts...)
		before, twice := seen[got]
		assert.True(t, !twice, "parts %d and %d have different sums", before, i)
		seen[got] = i
	}
	_, whole := encode(t, "b", part{name: "secret", body: "secret"})
	for _, bad := range [][2]string{
		{"multipart/form-data", whole},
		{"multipart/form-data; boundary=b; boundary=c", whole},
		{"multipart/form-data; boundary=b", whole[:len(whole)-5]},
		{"multipart/form-data; boundary=b", whole[:30]},
		{"multipart/form-data; boundary=c", whole},
		{"multipart/form-data; boundary=b", strings.Replace(whole, "name=", "nom=", 1)},
		{"multipart/form-data; boundary=b", strings.Replace(whole, "form-data", "attachment", 1)},
		{"multipart/form-data; boundary=b", strings.Replace(whole, "\r\n\r\n", "\r\nContent-Disposition: form-data; name=b\r\n\r\n", 1)},
	} {
		_, err := c.Sum(bad[0], "", []byte(bad[1]))
		assert.ErrorIs(t, err, fingerprint.ErrMalformed, "%q", bad)
		assert.True(t, !strings.Contains(err.Error(), "secret"), "the error %q quotes nothing", err)
	}
	contentType, body := encode(t, "b", a)
	encoded := strings.Replace(body, "\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1)
	assert.NotEqual(t, sum(t, c, contentType, "", body), sum(t, c, contentType, "", encoded), "a transfer encoding")
	file := strings.Replace(body, "\r\n\r\n", "; filename=\"\"\r\n\r\n", 1)
	assert.NotEqual(t, sum(t, c, contentType, "", body), sum(t, c, contentType, "", file), "a file without a name")
}

func TestGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := func(r fingerprint.Rule, contentType, query, body string) {
		c := compile(t, r)
		form, err := c.Form(contentType, query, []byte(body))
		assert.NoError(t, err, "Form")
		fmt.Fprintf(&b, "%q\n%s\n", form, hex.EncodeToString([]byte(sum(t, c, contentType, query, body))))
	}
	show(everything, "", "", "")
	show(fingerprint.Rule{Ignore: fingerprint.TimeFields()}, "application/json; charset=utf-8", "b=2&a=1&a=0&_=9", `{"b":[1.50,"\u0041\n"],"a":{"ts":1}}`)
	show(fingerprint.Rule{NumbersAsWritten: true}, jsonType, "", `{"b":1.50}`)
	show(everything, formType, "", "b=2&a=%C3%A9")
	contentType, body := encode(t, "x", part{"f", "n.txt", "text/plain", "text"}, part{name: "a", body: "1"})
	show(everything, contentType, "", body)
	show(everything, "Text/Plain", "", "text")
	legacy, err := everything.Legacy("dedup", "7", "pay", "b=2", []byte(`{"a":1,"c":"x"}`))
	assert.NoError(t, err, "Legacy")
	fmt.Fprintln(&b, legacy)
	assert.Golden(t, "testdata/formats_v1.golden", b.String())
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	c := compile(t, fingerprint.Rule{Ignore: []string{"ts", "$.a.b"}})
	var want []string
	body := func(i int) string { return fmt.Sprintf(`{"z":[%d],"a":{"b":1,"c":"\u0041"},"ts":1}`, i) }
	for i := range 8 {
		want = append(want, sum(t, c, jsonType, "q=1&p=2", body(i)))
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				if got, err := c.Sum(jsonType, "p=2&q=1", []byte(body(i))); err != nil || string(got) != want[i] {
					t.Errorf("sum %d differs beside others, error %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
