package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Opener opens the store that a name tells, as the other commands do.
type Opener func(ctx context.Context, name string, log *slog.Logger) (s retrysafe.Store, closeStore func() error, err error)

// records is a look into a gateway's store, which is there also while the gateway is not.
type records struct {
	stage  *stage
	store  retrysafe.Store
	end    func() error
	engine *retrysafe.Engine
	tenant string // the shopper, as the gateway names callers
	self   string
}

// recordState is what the store knows of a key.
type recordState struct {
	State  string `json:"state"` // as in a record, or in-doubt, or nothing where there is none
	LeaseS int    `json:"lease_s,omitempty"`
	List   string `json:"list,omitempty"` // what an operator types to see what is in doubt,
	// and to settle this one by what the shop's table says
	Resolve string `json:"resolve,omitempty"`
}

func openRecords(ctx context.Context, open Opener, s *stage) (*records, error) {
	quiet := slog.New(slog.DiscardHandler) // the gateway has said all this
	store, end, err := open(ctx, s.store, quiet)
	if err != nil {
		return nil, fmt.Errorf("demo: the gateway's records: %w", err)
	}
	// as the gateway has it
	o := &retrysafe.Options{Namespace: "demo", Secret: []byte(os.Getenv(secretName)), Sweep: -1, Logger: quiet}
	engine := retrysafe.New(store, o).Layer("gw")
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(shopper, "demo")
	name, _ := httpidem.Credential(engine)
	tenant, err := name(r)
	return &records{s, store, end, engine, tenant, self()}, err
}

// close settles what is in doubt where the store stays, for a doubt would stay with it. The gateway
// is dead by now.
func (r *records) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r.stage.stays {
		_ = r.settle(ctx) // a store that is away keeps its doubts
	}
	_ = errors.Join(r.engine.Shutdown(ctx), r.end())
}

func (r *records) settle(ctx context.Context) error {
	lister, ok := r.store.(retrysafe.Lister)
	if !ok {
		return nil
	}
	req := retrysafe.ListRequest{Namespace: r.engine.Namespace(), Layer: "gw", State: retrysafe.StateInProgress, Limit: 1000}
	for {
		page, err := lister.List(ctx, req)
		if err != nil {
			return err
		}
		for i := range page.Records {
			rec := &page.Records[i]
			if !strings.HasSuffix(rec.Key.ID, "-"+r.stage.run) {
				continue // somebody else's
			}
			how := retrysafe.Resolution{Fence: rec.Fence, Force: true, Outcome: retrysafe.NotDone, By: "demo"}
			if err := r.engine.Resolve(ctx, rec.Key.Key, how); err != nil {
				return err
			}
		}
		if req.After = page.Next; page.Next == "" {
			return nil
		}
	}
}

const (
	secretName = "RETRYSAFE_SECRET"
	// ownSecret is used where there is none: a gateway asks for one if others may read its store.
	ownSecret = "the secret of the demonstration"
)

// asGateway begins a line of the shell whose command needs the secret of the gateways.
func asGateway() string {
	if os.Getenv(secretName) == ownSecret {
		return secretName + "=" + quoted(ownSecret) + " "
	}
	return ""
}

// state finds the record of a client's key. paid is what the shop says has happened.
func (r *records) state(ctx context.Context, key string, paid []payment) recordState {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rec, err := r.engine.Lookup(ctx, retrysafe.Key{Tenant: r.tenant, Operation: "POST /payments", ID: key})
	if err != nil {
		return recordState{}
	}
	return r.say(&rec, paid)
}

func (r *records) say(rec *retrysafe.Record, paid []payment) recordState {
	st := recordState{State: rec.State.String()}
	switch {
	case rec.InDoubt():
		keys := asGateway() + r.self + " keys --store " + quoted(withoutPassword(r.stage.store))
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

// withoutPassword is the name of a store for the page to show: whoever copies it fills the password
// in.
func withoutPassword(store string) string {
	scheme, rest, ok := strings.Cut(store, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 || !strings.HasPrefix(scheme, "redis") {
		return store
	}
	user, _, given := strings.Cut(rest[:at], ":")
	if given {
		user += ":PASSWORD"
	}
	return scheme + "://" + user + rest[at:]
}
