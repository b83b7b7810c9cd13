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
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Opener opens the store with the given name, as the other commands do.
type Opener func(ctx context.Context, name string, log *slog.Logger) (s storeapi.Store, closeStore func() error, err error)

// gatewayRecords reads a gateway's store, also while the gateway is not running.
type gatewayRecords struct {
	stage      *stage
	store      storeapi.Store
	closeStore func() error
	engine     *retrysafe.Engine
	tenant     string // the shopper, as the gateway names tenants
	self       string
}

// recordState is what the store knows about a key.
type recordState struct {
	State  string `json:"state"` // as in a record, or in-doubt, or empty if there is none
	LeaseS int    `json:"lease_s,omitempty"`
	List   string `json:"list,omitempty"` // what an operator types to see what is in doubt
	// Resolve is what an operator types to resolve this one by what the shop's table says.
	Resolve string `json:"resolve,omitempty"`
}

func openRecords(ctx context.Context, open Opener, s *stage) (*gatewayRecords, error) {
	quiet := slog.New(slog.DiscardHandler) // the gateway has logged all this
	store, end, err := open(ctx, s.store, quiet)
	if err != nil {
		return nil, fmt.Errorf("demo: the gateway's records: %w", err)
	}
	// the gateway's options
	o := &retrysafe.Options{Namespace: namespace, Secret: []byte(os.Getenv(secretName)), Sweep: -1, Logger: quiet}
	engine := retrysafe.New(store, o).Layer("gw")
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(shopper, "demo")
	name, _ := httpidem.ByAuthorization(engine)
	tenant, err := name(r)
	return &gatewayRecords{s, store, end, engine, tenant, selfCommand()}, err
}

// close resolves what is in doubt, if the store remains after the demonstration, so that no doubt
// remains in it. The gateway is dead by now.
func (r *gatewayRecords) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r.stage.usersStore {
		_ = r.resolveDoubts(ctx) // an unreachable store keeps its doubts
	}
	_ = errors.Join(r.engine.Shutdown(ctx), r.closeStore())
}

func (r *gatewayRecords) resolveDoubts(ctx context.Context) error {
	lister, ok := r.store.(storeapi.Lister)
	if !ok {
		return nil
	}
	req := storeapi.ListRequest{Namespace: r.engine.Namespace(), Layer: "gw", State: retrysafe.StateInProgress, Limit: 1000}
	for {
		page, err := lister.List(ctx, req)
		if err != nil {
			return err
		}
		for i := range page.Records {
			rec := &page.Records[i]
			if !strings.HasSuffix(rec.Key.ID, "-"+r.stage.runID) {
				continue // it is not this demonstration's
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
	// ownSecret is used if the user has set none: a gateway needs a secret if others can read its
	// store.
	ownSecret = "the secret of the demonstration"
)

// secretPrefix begins a shell command that needs the secret of the gateways.
func secretPrefix() string {
	if os.Getenv(secretName) == ownSecret {
		return secretName + "=" + quoteWord(ownSecret) + " "
	}
	return ""
}

// lookupState looks up the record of a client's key. paid are the payments that the shop knows.
func (r *gatewayRecords) lookupState(ctx context.Context, key string, paid []payment) recordState {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rec, err := r.engine.Lookup(ctx, retrysafe.Key{Tenant: r.tenant, Operation: "POST /payments", ID: key})
	if err != nil {
		return recordState{}
	}
	return r.describe(&rec, paid)
}

func (r *gatewayRecords) describe(rec *retrysafe.Record, paid []payment) recordState {
	st := recordState{State: rec.State.String()}
	switch {
	case rec.InDoubt():
		keys := secretPrefix() + r.self + " keys --store " + quoteWord(withoutPassword(r.stage.store))
		hash := r.engine.KeyHash(rec.Key.Key)
		st.State, st.List = "in-doubt", keys+" list --in-doubt"
		if len(paid) == 0 {
			st.Resolve = fmt.Sprintf("%s release %s --fence %d --reason 'the shop has no payment'", keys, hash, rec.Fence)
		} else {
			st.Resolve = fmt.Sprintf("echo '{\"payment\":%d}' | %s resolve %s --fence %d --outcome done --status 201 --body /dev/stdin --reason 'the shop has the payment'",
				paid[0].ID, keys, hash, rec.Fence)
		}
	case rec.State == retrysafe.StateInProgress:
		st.LeaseS = int(math.Ceil(rec.LeaseLeft.Seconds()))
	}
	return st
}

// withoutPassword returns the name of a store for the page to show. A user who copies it must fill
// in the password.
func withoutPassword(store string) string {
	scheme, rest, ok := strings.Cut(store, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 || scheme == "sqlite" { // a path of SQLite has no password
		return store
	}
	user, _, given := strings.Cut(rest[:at], ":")
	if given {
		user += ":PASSWORD"
	}
	return scheme + "://" + user + rest[at:]
}
