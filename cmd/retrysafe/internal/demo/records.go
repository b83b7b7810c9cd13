package demo

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// records is a look into the gateway's store, which is there also while the gateway is not.
type records struct {
	path   string
	db     *sql.DB
	store  *sqlstore.Store
	engine *retrysafe.Engine
	self   string
}

// recordState is what the store knows of a key.
type recordState struct {
	State   string `json:"state"` // as in a record, or in-doubt, or nothing where there is none
	LeaseS  int    `json:"lease_s,omitempty"`
	List    string `json:"list,omitempty"`    // what an operator types to see what is in doubt,
	Resolve string `json:"resolve,omitempty"` // and to settle this one by what the shop's table says
}

func openRecords(path string) (*records, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(path)}).EscapedPath())
	if err != nil {
		return nil, fmt.Errorf("demo: the gateway's records: %w", err)
	}
	quiet := slog.New(slog.DiscardHandler) // the gateway has said all this
	store, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{Logger: quiet})
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("demo: the gateway's records: %w", err)
	}
	o := &retrysafe.Options{Secret: []byte(os.Getenv("RETRYSAFE_SECRET")), Sweep: -1, Logger: quiet} // as the gateway has it
	return &records{path, db, store, retrysafe.New(store, o).Layer("gw"), self()}, nil
}

func (r *records) close() { _ = r.db.Close() }

// state finds the record of a client's key. paid is what the shop says has happened.
func (r *records) state(ctx context.Context, key string, paid []payment) recordState {
	req := retrysafe.ListRequest{Layer: "gw", Operation: "POST /payments", Limit: 1000}
	for {
		page, err := r.store.List(ctx, req)
		if err != nil {
			return recordState{}
		}
		for i := range page.Records {
			if page.Records[i].Key.ID == key {
				return r.say(&page.Records[i], paid)
			}
		}
		if req.After = page.Next; page.Next == "" {
			return recordState{}
		}
	}
}

func (r *records) say(rec *retrysafe.Record, paid []payment) recordState {
	st := recordState{State: rec.State.String()}
	switch {
	case rec.InDoubt():
		keys := r.self + " keys --store " + quoted("sqlite:"+r.path)
		hash := r.engine.KeyHash(rec.Key.Key)
		st.State, st.List = "in-doubt", keys+" list --in-doubt"
		if len(paid) == 0 {
			st.Resolve = fmt.Sprintf("%s release %s --fence %d", keys, hash, rec.Fence)
		} else {
			st.Resolve = fmt.Sprintf("echo '{\"payment\":%d}' | %s resolve %s --fence %d --outcome done --status 201 --body /dev/stdin",
				paid[0].ID, keys, hash, rec.Fence)
		}
	case rec.State == retrysafe.StateInProgress:
		st.LeaseS = int(math.Ceil(rec.LeaseLeft.Seconds()))
	}
	return st
}
