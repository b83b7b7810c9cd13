package main

import (
	"fmt"
	"html/template"
	"log"
	"net/http"
	"sync"
)

// answers counts the answers of POST /votes by what they say.
type answers struct {
	mu sync.Mutex
	n  map[string]int
}

func (a *answers) countStatuses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &recorder{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		kind := fmt.Sprint(seen.status)
		if w.Header().Get("Idempotency-Replayed") == "true" {
			kind += " replayed"
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.n == nil {
			a.n = map[string]int{}
		}
		a.n[kind]++
	})
}

// snapshot returns a copy of the counts.
func (a *answers) snapshot() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := map[string]int{}
	for kind := range a.n {
		n[kind] = a.n[kind]
	}
	return n
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the server's own writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

var page = template.Must(template.New("page").Parse(`<!doctype html><title>Vote</title>
<meta http-equiv="refresh" content="2">
<p>You are {{.Voter}}. What do you drink?</p>
<form method="post" action="/votes"><input type="hidden" name="poll" value="{{.Poll}}">
{{range .Choices}}<button name="choice" value="{{.}}">{{.}}</button> {{end}}</form>
<ul>{{range $choice, $n := .Votes}}<li>votes for {{$choice}}: {{$n}}</li>
{{end}}</ul>
<p>Answers of this process:</p>
<ul>{{range $kind, $n := .Answers}}<li>{{$kind}}: {{$n}}</li>
{{end}}</ul>
`))

// showPage shows the form, the votes, and the outcomes of the requests.
func (s *site) showPage(w http.ResponseWriter, r *http.Request) {
	name, err := voterOf(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="any name"`)
		http.Error(w, "Give a name; the password does not matter.", http.StatusUnauthorized)
		return
	}
	votes := map[string]int{}
	for _, choice := range choices {
		var n int
		if err := s.db.QueryRowContext(r.Context(), "SELECT count(*) FROM votes WHERE poll = ? AND choice = ?", poll, choice).Scan(&n); err != nil {
			log.Print("the votes cannot be counted: ", err)
			http.Error(w, "Try again soon.", http.StatusServiceUnavailable)
			return
		}
		votes[choice] = n
	}
	if err := page.Execute(w, map[string]any{
		"Voter": name, "Poll": poll, "Choices": choices, "Votes": votes, "Answers": s.answers.snapshot(),
	}); err != nil {
		log.Print("the page was not shown: ", err)
	}
}
