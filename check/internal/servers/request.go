package servers

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The values of Authorization of the two callers.
const (
	Ann = "Bearer token-of-ann"
	Bob = "Bearer token-of-bob"
)

var callers = map[string]string{Ann: "ann", Bob: "bob"}

const (
	// workTime is how long a payment takes.
	workTime = 15 * time.Millisecond
	// longestKey is the number of octets of the longest key.
	longestKey = 255
)

// order is a valid request for a payment or a refund.
type order struct {
	caller string
	route  string // payments or refunds
	key    string
	amount int64
	digest [sha256.Size]byte
	// trouble is the status that X-Trouble asks for, or zero.
	trouble int
}

// refusal is an answer to a request that did nothing.
type refusal struct {
	status int
	why    string
	// later says that the same request may be sent again in a moment.
	later bool
}

// readKey returns the key of a request, which is empty if there is none.
func readKey(h http.Header) (string, *refusal) {
	lines := h.Values("Idempotency-Key")
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", &refusal{status: http.StatusBadRequest, why: "the request has two keys"}
	case lines[0] == "":
		return "", &refusal{status: http.StatusBadRequest, why: "the key is empty"}
	case len(lines[0]) > longestKey:
		return "", &refusal{status: http.StatusBadRequest, why: "the key is too long"}
	}
	return lines[0], nil
}

// readOrder reads an order. The key may be missing.
func readOrder(r *http.Request) (*order, *refusal) {
	caller, known := callers[r.Header.Get("Authorization")]
	if !known {
		return nil, &refusal{status: http.StatusUnauthorized, why: "send your token in Authorization"}
	}
	k, no := readKey(r.Header)
	if no != nil {
		return nil, no
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, why: "the body ended early"}
	}
	var paid struct {
		Amount int64 `json:"amount"`
	}
	if err := json.Unmarshal(body, &paid); err != nil || paid.Amount <= 0 {
		return nil, &refusal{status: http.StatusBadRequest, why: "the body is not {\"amount\": n} with a number above 0"}
	}
	trouble, _ := strconv.Atoi(r.Header.Get("X-Trouble"))
	return &order{
		caller: caller, route: strings.TrimPrefix(r.URL.Path, "/"), key: k,
		amount: paid.Amount, digest: sha256.Sum256(body), trouble: trouble,
	}, nil
}

// earlyRefusal returns the refusal of an order that X-Trouble makes invalid or one too many.
func (o *order) earlyRefusal() *refusal {
	switch o.trouble {
	case http.StatusBadRequest:
		return &refusal{status: o.trouble, why: "this amount cannot be paid"}
	case http.StatusTooManyRequests:
		return &refusal{status: o.trouble, why: "too many requests", later: true}
	}
	return nil
}

// doWork takes its time. It fails, before it has done anything, if X-Trouble asks for it.
func (o *order) doWork() *refusal {
	<-time.After(workTime)
	if o.trouble >= http.StatusInternalServerError {
		return &refusal{status: o.trouble, why: "the bank does not answer"}
	}
	return nil
}

// newRoutes returns a handler for both operations.
func newRoutes(h http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", h)
	mux.HandleFunc("POST /refunds", h)
	return mux
}

// writeRefusal answers with a problem document.
func writeRefusal(w http.ResponseWriter, no *refusal) {
	w.Header().Set("Content-Type", "application/problem+json")
	if no.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if no.later {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(no.status)
	fmt.Fprintf(w, `{"title":%q,"status":%d,"detail":%q}`+"\n", http.StatusText(no.status), no.status, no.why)
}
