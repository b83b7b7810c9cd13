package httpidem

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Status is what [Middleware.Status] reports about a key.
type Status struct {
	// State is absent, in-progress, in-doubt, completed, failed, released (nothing was done; a
	// request with the key runs), or issued (a token that has not been used yet; a token that is
	// not stored before its use is absent).
	State string `json:"state"`
	// Attempt counts the runs so far.
	Attempt int `json:"attempt,omitempty"`
	// HTTPStatus is the status of the answer that a duplicate gets, if it is known.
	HTTPStatus int `json:"http_status,omitempty"`
	// RetryAfterSeconds says, while the request is in progress, when to ask again.
	RetryAfterSeconds int `json:"retry_after_s,omitempty"`
}

// Status returns a handler for clients that want to know the outcome of a key without sending the
// request again:
//
//	GET /.retrysafe/status?method=POST&path=/orders
//
// with the key and the credential of the request. It runs nothing and changes nothing. It answers
// with a [Status] as JSON, with 404 if there is no record, or with a problem. You choose the path
// to serve it at; tenant and operation are derived from a request with that method and path.
func (m *Middleware) Status() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, p := m.askedRequest(r)
		if p != nil {
			m.Problem(w, r, p)
			return
		}
		rec, p := m.lookUpRecord(asked)
		switch {
		case p != nil:
			m.Problem(w, r, p)
		case rec == nil:
			writeStatus(w, http.StatusNotFound, &Status{State: "absent"})
		default:
			writeStatus(w, http.StatusOK, statusOf(rec))
		}
	})
}

// AskedFor returns the request that a status request asks about. Its method and path come from the
// query; its header is the same.
func AskedFor(r *http.Request) (*http.Request, error) {
	q := r.URL.Query()
	method, path := q.Get("method"), q.Get("path")
	u, err := url.ParseRequestURI(path)
	if err != nil || method == "" || path[0] != '/' {
		return nil, errors.New("the query has no method and path of a request")
	}
	asked := r.Clone(r.Context())
	asked.Method, asked.URL, asked.RequestURI, asked.Body = method, u, path, http.NoBody
	return asked, nil
}

func (m *Middleware) askedRequest(r *http.Request) (*http.Request, *Problem) {
	asked, err := AskedFor(r)
	if err != nil {
		return nil, problemFor(retrysafe.CodeQueryMalformed, err)
	}
	return asked, nil
}

// lookUpRecord returns the record of a request if the caller may see it.
func (m *Middleware) lookUpRecord(asked *http.Request) (*retrysafe.Record, *Problem) {
	lines := m.keyLines(asked)
	if lines == nil && m.o.Key == Token {
		return nil, m.tokenMissingProblem()
	}
	if lines == nil {
		return nil, m.keyMissingProblem()
	}
	who, p := m.identifyCaller(asked, lines)
	if p != nil {
		return nil, p
	}
	if p := m.notReadyProblem(asked); p != nil {
		return nil, p
	}
	rec, err := m.engine.Lookup(asked.Context(), who.key)
	if errors.Is(err, retrysafe.ErrNotFound) {
		return nil, nil //nolint:nilnil // no record and no problem
	}
	if err != nil {
		return nil, problemOf(err, false)
	}
	if m.o.Binding != nil && rec.Binding != nil {
		sum := m.engine.Digest(m.o.Binding(asked))
		if subtle.ConstantTimeCompare(sum[:], rec.Binding) != 1 {
			return nil, m.bindingChangedProblem(who.tenant, asked, nil)
		}
	}
	return &rec, nil
}

func statusOf(rec *retrysafe.Record) *Status {
	s := &Status{State: rec.State.String(), Attempt: rec.Attempt}
	var msg storedMessage
	switch {
	case rec.InDoubt():
		s.State = "in-doubt"
	case rec.State == retrysafe.StateInProgress:
		s.RetryAfterSeconds = min(5, max(1, int((rec.LeaseLeft+time.Second-1)/time.Second)))
	case rec.Answer.Codec == codecName && msg.parse(rec.Answer.Body) == nil:
		s.HTTPStatus = msg.status
	}
	return s
}

func writeStatus(w http.ResponseWriter, status int, s *Status) {
	body, _ := json.Marshal(s) // strings and numbers only: cannot fail
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = jsonType, []string{"no-store"}
	writeAnswer(w, status, append(body, '\n'))
}
