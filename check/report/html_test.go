package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func htmlOf(t *testing.T, r *check.Report) string {
	t.Helper()
	var b bytes.Buffer
	assert.NoError(t, report.HTML(&b, r), "HTML")
	return b.String()
}

func TestHTML(t *testing.T) {
	t.Parallel()
	text := htmlOf(t, sampleReport())
	for _, want := range []string{
		"<code>POST http://localhost:8080/orders</code>", report.Score(sampleReport()), "Not safe to retry",
		`<a href="#concurrent-duplicates">`, `<article class="card result" id="concurrent-duplicates"`,
		"<strong>What to do:</strong> Claim the key", "<strong>What it needs:</strong> Give the command",
		pages + "concurrent-duplicates", "Set $AUTHORIZATION before", "no answer: connection refused",
	} {
		assert.Contains(t, text, want, "page")
	}
	assert.True(t, !strings.Contains(text, `id="replayed"`), "a passed check has no details")
	assert.Equal(t, strings.Count(text, `<button type="button" class="copy" data-from="concurrent-duplicates-`), 3, "copy buttons of a finding with two requests")
}

// TestHTMLMarksWhatDiffers: of two answers both sides are marked, of more those after the first.
func TestHTMLMarksWhatDiffers(t *testing.T) {
	t.Parallel()
	marks := regexp.MustCompile(`<mark>(.*?)</mark>`)
	marked := func(r *check.Report) (all []string) {
		for _, m := range marks.FindAllStringSubmatch(htmlOf(t, r), -1) {
			all = append(all, m[1])
		}
		return all
	}
	r := sampleReport()
	r.Results = r.Results[1:2]
	assert.Equal(t, marked(r), []string{"Location: /orders/17", "  &#34;id&#34;: 17,", "Location: /orders/18", "  &#34;id&#34;: 18,"}, "two answers; Date is not marked")
	e := r.Results[0].Exchanges
	r.Results[0].Exchanges = append(e, e[0])
	assert.Equal(t, marked(r), []string{"Location: /orders/18", "  &#34;id&#34;: 18,"}, "three answers, the last like the first")
	r.Results[0].Exchanges = []check.Exchange{{Status: 200, Body: `{"a":1}`}, {Status: 200, Body: `{"a": 1}`}}
	assert.Equal(t, marked(r), []string{"{&#34;a&#34;:1}", "{&#34;a&#34;: 1}"}, "white space")
	r.Results[0].Exchanges = []check.Exchange{{Status: 200, Body: "a\nb\nc"}, {Status: 200, Body: "b\nc\nd"}}
	assert.Equal(t, marked(r), []string{"a", "d"}, "lines that moved")
	r.Results[0].Exchanges = []check.Exchange{{Error: "reset"}}
	assert.Equal(t, len(marked(r)), 0, "one answer")
}

var (
	policy = regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`)
	style  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	script = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
)

// TestHTMLOfHostileAnswers: the page has one style and one script, exactly those of the policy, no
// attribute that runs, and no address but that of the documentation.
func TestHTMLOfHostileAnswers(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*check.Report{"sample": sampleReport(), "hostile": hostileReport()} {
		text := htmlOf(t, r)
		csp := policy.FindStringSubmatch(text)[1]
		assert.True(t, strings.HasPrefix(csp, "default-src &#39;none&#39;; style-src &#39;sha256-"), "%s: policy: %s", name, csp)
		for what, element := range map[string]*regexp.Regexp{"style-src": style, "script-src": script} {
			all := element.FindAllStringSubmatch(text, -1)
			assert.Equal(t, len(all), 1, "%s: elements for %s", name, what)
			sum := sha256.Sum256([]byte(all[0][1]))
			want := base64.StdEncoding.EncodeToString(sum[:])
			assert.Contains(t, strings.ReplaceAll(csp, "&#43;", "+"), what+" &#39;sha256-"+want+"&#39;", "%s: policy", name)
		}
		body := script.ReplaceAllString(style.ReplaceAllString(text, ""), "")
		for _, tag := range regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(body, -1) {
			for _, bad := range []string{" on", "style=", "src=", "javascript:", "<script", "<img", "<style", "<link"} {
				assert.True(t, !strings.Contains(tag, bad), "%s: the element %s", name, tag)
			}
		}
		for _, r := range text {
			assert.True(t, r == '\n' || r >= ' ' && r != '\u202e' && r != '\u2028', "%s: character %q", name, r)
		}
	}
}

// TestHTMLOfManyFields: an API that sends very many fields cannot keep the page from being written.
func TestHTMLOfManyFields(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	e := r.Results[1].Exchanges
	for i := range e {
		for range 100_000 {
			e[i].Header.Add("X-Field", strings.Repeat("x", 1+i))
		}
	}
	assert.Contains(t, htmlOf(t, r), "more lines", "the page says that lines are left out")
}
