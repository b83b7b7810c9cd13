package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const ownConfiguration = "`httpidem.New(engine, &httpidem.Options{Tenant: caller})`, records in memory"

// startRetrysafe starts the service with the middleware of this repository.
func startRetrysafe(context.Context) (*service, error) {
	var total atomic.Int64
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("a secret of this program")})
	caller := func(r *http.Request) (string, error) { return callers[r.Header.Get("Authorization")], nil }
	idem := httpidem.New(engine, &httpidem.Options{Tenant: caller})
	orders := http.NewServeMux()
	act := idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ownPay(w, r, &total) }))
	orders.Handle("POST /payments", act)
	orders.Handle("POST /refunds", act)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /effects", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"total":%d}`, total.Load()) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if name, _ := caller(r); name == "" {
			http.Error(w, "send your token in Authorization", http.StatusUnauthorized)
			return
		}
		orders.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	return &service{
		address: server.Listener.Addr().String(), version: "retrysafe of this tree, httpidem",
		configuration: ownConfiguration, close: func() {
			server.Close()
			_ = engine.Shutdown(context.Background())
		},
	}, nil
}

func ownPay(w http.ResponseWriter, r *http.Request, total *atomic.Int64) {
	var order struct {
		Amount int64 `json:"amount"`
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
		http.Error(w, "the body is not {\"amount\": n}", http.StatusBadRequest)
		return
	}
	trouble, _ := strconv.Atoi(r.Header.Get("X-Trouble"))
	if trouble/100 == 4 {
		http.Error(w, "refused", trouble)
		return
	}
	<-time.After(workTime)
	if trouble != 0 {
		http.Error(w, "the bank does not answer", trouble)
		return
	}
	id := fmt.Sprintf("%s_%d", r.URL.Path[1:4], total.Add(1))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", r.URL.Path+"/"+id)
	w.Header().Set("ETag", `"`+id+`"`)
	http.SetCookie(w, &http.Cookie{Name: "basket", Value: id})
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":%q,"amount":%d}`, id, order.Amount)
}
