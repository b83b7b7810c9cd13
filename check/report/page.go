package report

import (
	"fmt"
	"html"
	"net/url"
	"strings"
)

// htmlPage returns the page. It is written by hand, since html/template keeps the linker from
// leaving out methods without a caller: that would make the command half as large again. Every
// value goes through markup.add, which escapes it for text and for quoted attributes.
func htmlPage(v *htmlView) string {
	m := new(markup)
	m.add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>%s</title>
<style>`, v.Policy, v.Title)
	m.WriteString(pageCSS)
	m.add(`</style>
</head>
<body>
<header>
<p class="brand">retrysafe check</p>
<h1>Is <code>%s</code> safe to retry?</h1>
<p class="answer %s">%s</p>
<p class="score">%s</p>
<dl class="facts">
<div><dt>Effects</dt><dd>%s</dd></div>
`, v.Target, v.Overall, v.Answer, v.Score, v.Oracle)
	if v.Contract != "" {
		m.add("<div><dt>Contract</dt><dd>%s</dd></div>\n", v.Contract)
	}
	m.add("<div><dt>Started</dt><dd>%s</dd></div>\n", v.Started)
	for _, note := range v.Notes {
		m.add("<div><dt>Note</dt><dd>%s</dd></div>\n", note)
	}
	m.add("</dl>\n</header>\n<main>\n")
	m.addTable(v.Rows)
	for _, g := range v.Groups {
		m.add("<h2 class=\"group\">%s</h2>\n", g.Title)
		for _, r := range g.Results {
			m.addResult(r)
		}
	}
	m.add("</main>\n")
	if v.Secrets != "" {
		m.add("<footer><p>%s</p></footer>\n", v.Secrets)
	}
	m.add(`<p class="sr" id="said" role="status"></p>` + "\n<script>")
	m.WriteString(pageJS)
	m.add("</script>\n</body>\n</html>\n")
	return m.String()
}

// markup is HTML that grows.
type markup struct{ strings.Builder }

// add adds HTML with values in it, which it escapes.
func (m *markup) add(format string, values ...string) {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(v)
	}
	fmt.Fprintf(m, format, escaped...)
}

// addTable adds the table of all checks.
func (m *markup) addTable(rows []viewRow) {
	m.add(`<section class="card" aria-labelledby="checks">
<h2 id="checks">Checks</h2>
<table>
<thead><tr><th scope="col">Check</th><th scope="col">Result</th></tr></thead>
<tbody>
`)
	for _, r := range rows {
		m.add("<tr>\n<th scope=\"row\">")
		if r.Link {
			m.add("<a href=\"#%s\">%s</a>", r.ID, r.Title)
		} else {
			m.add("%s", r.Title)
		}
		m.add(" <code>%s</code></th>\n<td>", r.ID)
		m.addBadge(r.viewResult)
		m.add("</td>\n</tr>\n")
	}
	m.add("</tbody>\n</table>\n</section>\n")
}

// addBadge adds the verdict of a check.
func (m *markup) addBadge(r *viewResult) {
	m.add(`<span class="badge %s %s"><span aria-hidden="true">%s</span> %s</span>`, r.Verdict, r.Severity, r.Mark, r.Label)
}

// addResult adds the details of a check.
func (m *markup) addResult(r *viewResult) {
	m.add(`<article class="card result" id="%s" aria-labelledby="%s-title">`+"\n", r.ID, r.ID)
	m.add(`<div class="top"><h3 id="%s-title">%s</h3>`, r.ID, r.Title)
	m.addBadge(r)
	m.add("</div>\n")
	if r.Summary != "" {
		m.add("<p class=\"seen\"><strong>Seen:</strong> %s</p>\n", r.Summary)
	}
	if r.Help != "" {
		m.add("<p><strong>%s:</strong> %s</p>\n", r.HelpTitle, r.Help)
	}
	if len(r.Exchanges) > 0 {
		m.addRequests(r)
		m.addAnswers(r)
	}
	m.add(`<p class="more"><a href="%s" rel="noreferrer">About this check<span class="sr"> %s</span></a></p>
</article>
`, webAddress(r.Page), r.ID)
}

// webAddress returns the address of a page of the web, or one that leads nowhere: another scheme
// could run a script.
func webAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "#"
	}
	return u.String()
}

// addRequests adds the requests that were sent, each with a button that copies it.
func (m *markup) addRequests(r *viewResult) {
	m.add(`<div class="top"><h4>Requests</h4><button type="button" class="copy" data-from="%s-script" hidden><span>Copy all</span></button></div>
<pre class="script" id="%s-script" hidden>%s</pre>
<ol class="requests">
`, r.ID, r.ID, r.Script)
	for _, e := range r.Exchanges {
		number := fmt.Sprint(e.Number)
		m.add(`<li><div class="top"><span>%s</span><button type="button" class="copy" data-from="%s-%s" hidden>`, e.Step, r.ID, number)
		m.add(`<span>Copy</span><span class="sr"> request %s</span></button></div>`+"\n", number)
		m.add("<pre id=\"%s-%s\">%s</pre></li>\n", r.ID, number, e.Curl)
	}
	m.add("</ol>\n")
}

// addAnswers adds the answers side by side.
func (m *markup) addAnswers(r *viewResult) {
	m.add("<h4>Answers")
	if len(r.Exchanges) > 1 {
		m.add(` <span class="soft">marked where they differ from the first</span>`)
	}
	m.add("</h4>\n<div class=\"answers\">\n")
	for _, e := range r.Exchanges {
		m.add("<figure><figcaption>%s. %s <span class=\"soft\">%s</span></figcaption>\n<pre>", fmt.Sprint(e.Number), e.Step, e.Took)
		for _, line := range e.Lines {
			if line.Differs {
				m.add("<mark>%s</mark>\n", line.Text)
			} else {
				m.add("%s\n", line.Text)
			}
		}
		m.add("</pre></figure>\n")
	}
	m.add("</div>\n")
}
