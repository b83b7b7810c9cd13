package main

import (
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

func (b *bank) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", b.postPayment)
	mux.HandleFunc("GET /accounts", b.getAccounts)
	return mux
}

func (b *bank) postPayment(w http.ResponseWriter, r *http.Request) {
	key, err := httpidem.ParseKey(r.Header.Values("Idempotency-Key"))
	if err != nil {
		http.Error(w, "send an Idempotency-Key: "+err.Error(), http.StatusBadRequest)
		return
	}
	var p payment
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || p.ID != 0 || p.Cents <= 0 || p.Payee == "" {
		http.Error(w, `send JSON like {"payee":"bob","cents":250}`, http.StatusBadRequest)
		return
	}
	// The caller pays. Add your own login: this does not check the password.
	p.Payer, _, _ = r.BasicAuth()
	res, err := b.makePayment(r.Context(), key, p)
	if err != nil {
		writeError(w, err)
		return
	}
	if res.Replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	writeJSON(w, http.StatusCreated, res.Value)
}

// writeError answers an error of DoTx. None of these errors means that money moved unseen: a retry
// with the same key gets the outcome.
func writeError(w http.ResponseWriter, err error) {
	var failure *retrysafe.Failure
	after, again := retrysafe.Retryable(err)
	switch {
	case errors.As(err, &failure):
		writeJSON(w, http.StatusConflict, map[string]string{"error": failure.Code})
	case errors.Is(err, retrysafe.ErrFingerprintMismatch):
		http.Error(w, "this key was used for another payment; use a new key", http.StatusUnprocessableEntity)
	case again:
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(after.Seconds()))))
		http.Error(w, "send it again with the same key", http.StatusServiceUnavailable)
	default:
		log.Print("a payment has no answer: ", err)
		http.Error(w, "send it again with the same key", http.StatusInternalServerError)
	}
}

func (b *bank) getAccounts(w http.ResponseWriter, r *http.Request) {
	type account struct {
		Owner   string `json:"owner"`
		Balance int64  `json:"balance"`
	}
	rows, err := b.pool.Query(r.Context(), "SELECT owner, balance FROM accounts ORDER BY owner")
	var all []account
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[account])
	}
	if err != nil {
		log.Print("the accounts could not be read: ", err)
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		return
	}
	writeJSON(w, http.StatusOK, all)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone; the record has the answer
}
