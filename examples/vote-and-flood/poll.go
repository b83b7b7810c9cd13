package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/goredisclient"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// The primary key is what no failure of Redis can undo: one vote a voter.
const table = `CREATE TABLE IF NOT EXISTS votes (poll TEXT NOT NULL, voter TEXT NOT NULL, choice TEXT NOT NULL, PRIMARY KEY (poll, voter))`

const poll = "drink"

var choices = []string{"tea", "coffee"}

func runPoll(ctx context.Context, listen, redisURL string, rate float64) error {
	db, err := sql.Open("sqlite", "file:votes.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, table); err != nil {
		return fmt.Errorf("create the table of votes: %w", err)
	}
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	connection := redis.NewClient(options)
	defer func() { _ = connection.Close() }()
	client, err := goredisclient.New(connection)
	if err != nil {
		return err
	}
	store, err := redisstore.New(ctx, client, nil)
	if err != nil {
		return fmt.Errorf("open Redis: %w", err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "votes", Secret: []byte(os.Getenv("RETRYSAFE_SECRET"))})
	s := &site{db: db}
	idem := httpidem.New(engine, s.newOptions(rate))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.showPage)
	mux.Handle("POST /votes", s.answers.countStatuses(idem.Handler(http.HandlerFunc(s.castVote))))
	err = listenAndServe(ctx, listen, http.NewCrossOriginProtection().Handler(mux))
	return errors.Join(err, engine.Shutdown(context.WithoutCancel(ctx)))
}

type site struct {
	db      *sql.DB
	answers answers
}

// newOptions make the key from voter and poll: no browser has to send one, and no other key gives a
// second vote.
func (s *site) newOptions(rate float64) *httpidem.Options {
	return &httpidem.Options{
		Tenant: voterOf, Key: httpidem.Fields, Request: httpidem.RequestOptions{
			Fields:    []string{"poll"},
			Operation: func(*http.Request) string { return "vote" },
		},
		Limit: httpidem.LimitOptions{Rate: retrysafe.Rate{PerSecond: rate}, RateBy: clientAddress},
		Policy: retrysafe.Policy{
			Retention: 90 * 24 * time.Hour, Wait: 5 * time.Second,
			// After a crash the vote is cast again: the primary key finds the row of the first try.
			OnDoubt: retrysafe.Reexecute, Lease: 3 * time.Second, MaxRun: time.Minute,
			// A voter who invents polls fills the store with ten records at most.
			Limits: retrysafe.Limits{Live: 10},
		},
	}
}

// voterOf keeps voters apart. Add your own login: this does not check the password.
func voterOf(r *http.Request) (string, error) {
	name, _, ok := r.BasicAuth()
	if !ok || name == "" || len(name) > 100 {
		return "", errors.New("a request without the name of a voter")
	}
	return name, nil
}

// clientAddress is what a caller cannot invent. Behind a proxy it is that of the proxy: use the
// field in which the proxy names the client.
func clientAddress(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return host, err
}

func (s *site) castVote(w http.ResponseWriter, r *http.Request) {
	name, err := voterOf(r)
	choice := r.FormValue("choice")
	if err != nil || r.FormValue("poll") != poll || !slices.Contains(choices, choice) {
		http.Error(w, "There is no such poll, or no such choice.", http.StatusBadRequest)
		return
	}
	_, err = s.db.ExecContext(r.Context(), "INSERT INTO votes (poll, voter, choice) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", poll, name, choice)
	if err == nil {
		err = s.db.QueryRowContext(r.Context(), "SELECT choice FROM votes WHERE poll = ? AND voter = ?", poll, name).Scan(&choice)
	}
	if err != nil {
		log.Print("a vote was not cast, or is not known to be: ", err)
		http.Error(w, "Send it again.", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "%s voted for %s\n", name, choice)
}
