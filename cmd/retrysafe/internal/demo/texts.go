package demo

import (
	"net/http"
	"strings"
	"sync"
)

// language is one of the languages of the pages.
type language int

const (
	english language = iota
	chinese
)

// tag returns the language as HTML names it.
func (l language) tag() string { return [...]string{"en", "zh-CN"}[l] }

// short returns the language as the page's address names it.
func (l language) short() string { return [...]string{"en", "zh"}[l] }

// texts returns the texts of page/texts.js, which the scripts of the page read too: by key, in
// English and in Chinese.
var texts = sync.OnceValue(func() map[string][2]string {
	file, err := files.ReadFile("page/texts.js")
	if err != nil {
		panic(err) // it is embedded
	}
	_, table, _ := strings.Cut(string(file), "`\n")
	table, _, _ = strings.Cut(table, "\n`;")
	all := map[string][2]string{}
	for line := range strings.SplitSeq(table, "\n") {
		if parts := strings.Split(line, "|"); len(parts) == 3 {
			all[parts[0]] = [2]string{parts[1], parts[2]}
		}
	}
	return all
})

// textOf returns the text of a key. values are pairs of name and value for its {name}.
func (l language) textOf(key string, values ...string) string {
	pairs := make([]string, len(values))
	for i, v := range values {
		if pairs[i] = v; i%2 == 0 {
			pairs[i] = "{" + v + "}"
		}
	}
	return strings.NewReplacer(pairs...).Replace(texts()[key][l])
}

// languageOf returns the language of a request: what its field lang says, or else what the browser
// prefers.
func languageOf(r *http.Request) language {
	wanted := r.FormValue("lang") + "," + r.Header.Get("Accept-Language")
	for tag := range strings.SplitSeq(strings.ToLower(wanted), ",") {
		switch tag = strings.TrimSpace(tag); {
		case strings.HasPrefix(tag, "zh"):
			return chinese
		case strings.HasPrefix(tag, "en"):
			return english
		}
	}
	return english
}

// refuseRequest answers with a text in the language of the request.
func refuseRequest(w http.ResponseWriter, r *http.Request, status int, key string, values ...string) {
	http.Error(w, languageOf(r).textOf(key, values...), status)
}
