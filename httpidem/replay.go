package httpidem

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"

	"github.com/retrysafe/retrysafe"
)

var (
	trueValue       = []string{"true"}
	jsonType        = []string{"application/json"}
	octetStreamType = []string{"application/octet-stream"}
)

// replayRecord answers with the stored answer of a finished record.
func (m *Middleware) replayRecord(w http.ResponseWriter, r *http.Request, rec *retrysafe.Record) {
	h := w.Header()
	switch {
	case m.policy.Duplicate == retrysafe.Succeed && m.isSuccess(rec):
		h[m.dialect.replayed] = trueValue
		m.o.Answer.Succeed.send(w)
	case rec.Answer.Codec == codecName && rec.Answer.Kept:
		m.replayMessage(w, r, rec)
	case rec.State == retrysafe.StateFailed:
		p := problemFor(retrysafe.CodeResolvedFailed, nil)
		if f, err := retrysafe.FailureOf(rec.Answer); err == nil {
			p.Detail = f.Message
		}
		m.Problem(w, r, p)
	case !rec.Answer.Kept, rec.Answer.Sealed():
		m.Problem(w, r, notKeptProblem(rec))
	default:
		// An answer that an operator gave when resolving an outcome in doubt.
		h["Content-Type"], h[m.dialect.replayed] = octetStreamType, trueValue
		if rec.Answer.Codec == "json" {
			h["Content-Type"] = jsonType
		}
		writeAnswer(w, http.StatusOK, rec.Answer.Body)
	}
}

func (m *Middleware) replayMessage(w http.ResponseWriter, r *http.Request, rec *retrysafe.Record) {
	var msg storedMessage
	if msg.parse(rec.Answer.Body) != nil {
		m.Problem(w, r, notKeptProblem(rec))
		return
	}
	h := w.Header()
	msg.setHeader(h)
	h[m.dialect.replayed] = trueValue
	if _, set := h["Content-Type"]; !set {
		h["Content-Type"] = nil // net/http adds its own only if there is no entry
	}
	if len(msg.trailer) == 0 {
		writeAnswer(w, msg.status, msg.body)
		return
	}
	w.WriteHeader(msg.status)
	_, _ = w.Write(msg.body)
	for name, values := range msg.trailer {
		h[http.TrailerPrefix+name] = values
	}
}

// isSuccess reports whether the first answer was not a refusal. A duplicate of a refusal does not
// get a success.
func (m *Middleware) isSuccess(rec *retrysafe.Record) bool {
	var msg storedMessage
	switch {
	case rec.State != retrysafe.StateCompleted || rec.Answer.Sealed():
		return false
	case rec.Answer.Codec == "" && !rec.Answer.Kept && rec.Fingerprint == nil && rec.Binding == nil:
		return false // it was forgotten, and may have been a refusal
	case rec.Answer.Codec != codecName:
		return true
	case msg.parse(rec.Answer.Body) != nil:
		return false
	case m.outcome == nil || !rec.Answer.Kept:
		return msg.status < 400
	}
	h := http.Header{}
	msg.setHeader(h)
	return m.outcome.saysDone(msg.status, h, msg.body)
}

// send sends the answer.
func (s *StaticAnswer) send(w http.ResponseWriter) {
	if s.ContentType != "" {
		w.Header()["Content-Type"] = []string{s.ContentType}
	}
	writeAnswer(w, s.Status, s.Body)
}

func writeAnswer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if _, set := h["Content-Length"]; !set && allowsBody(status) {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = w.Write(body) // a client that has gone can retry
	}
}

// notKeptProblem returns the problem that describes an answer that was too large to store, that was
// not to be stored, or that is sealed.
func notKeptProblem(rec *retrysafe.Record) *Problem {
	p := problemFor(retrysafe.CodeAnswerNotKept, nil)
	var msg storedMessage
	if rec.Answer.Sealed() {
		p.Title, p.cause = "This was done before, and its answer cannot be opened any more", retrysafe.ErrAnswerSealed
		return p
	}
	if rec.Answer.Digest == ([32]byte{}) && rec.Answer.Codec == codecName && msg.parse(rec.Answer.Body) == nil {
		p.Title, p.AnswerStatus = "This was done before, and answers of this kind are not kept", msg.status
		p.Detail = fmt.Sprintf("The first request was answered with status %d. %s", msg.status, p.Detail)
		return p
	}
	if rec.Answer.Digest == ([32]byte{}) {
		// the answer is not known: the handler took the connection over, or an operator resolved an
		// outcome in doubt
		return p
	}
	size := rec.Answer.Size
	p.AnswerLength = &size
	p.AnswerSHA256 = hex.EncodeToString(rec.Answer.Digest[:])
	if msg.parse(rec.Answer.Body) == nil {
		p.AnswerStatus, p.Location = msg.status, msg.get("Location")
	}
	return p
}
