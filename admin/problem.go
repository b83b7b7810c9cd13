package admin

import (
	"errors"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// Problem is the document of an error, RFC 9457.
type Problem struct {
	Type   string `json:"type" doc:"about:blank, or the page of the code"`
	Title  string `json:"title" doc:"the status in words"`
	Status int    `json:"status" doc:"the status of the answer"`
	Code   string `json:"code" doc:"one of a fixed set of words"`
	Detail string `json:"detail" doc:"what was wrong, and what to do"`
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

func newProblem(status int, code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// badRequest is the problem of a request that cannot be understood.
func badRequest(detail string) *Problem {
	return newProblem(http.StatusBadRequest, "bad-request", detail)
}

// problemOf returns the document of an error of a handler.
func problemOf(err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, retrysafe.ErrNotFound):
		return newProblem(http.StatusNotFound, "not-found", "there is no such record; it may have expired")
	case errors.Is(err, retrysafe.ErrFenceChanged):
		return newProblem(http.StatusConflict, "changed", "the record has changed since you looked at it; look at it again")
	case errors.Is(err, retrysafe.ErrInProgress):
		return newProblem(http.StatusConflict, "in-progress", "an attempt holds the record and may still act; wait until its lease ends, or force")
	case errors.Is(err, retrysafe.ErrDuplicate):
		return newProblem(http.StatusConflict, "completed", "the record is completed: it has its answer, which is never changed")
	case errors.Is(err, retrysafe.ErrUnconfirmed):
		return newProblem(http.StatusServiceUnavailable, "unconfirmed", "the store did not confirm the change, which may have been made; look at the record again")
	case errors.Is(err, errReference):
		return newProblem(http.StatusNotFound, "not-found", err.Error())
	case errors.Is(err, ErrNoQuotas):
		return newProblem(http.StatusNotFound, "no-quotas", err.Error())
	case errors.Is(err, ErrAmbiguous):
		return newProblem(http.StatusConflict, "ambiguous", err.Error())
	}
	return newProblem(http.StatusServiceUnavailable, "unavailable", "the store did not answer, or refused; the log of this server has the error")
}

func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="retrysafe"`)
	}
	text, _ := marshalPrintable(p) // it has strings and a number
	writeAnswer(w, p.Status, text)
}
