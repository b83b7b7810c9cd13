package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// hidden are all texts that only the role reveal may see.
var hidden = append([]string{
	"input-secret", "step-secret", "failure-secret", "released-secret", "lock-of-alice",
	"message-id-1", "message-key", "message-error", "letter-id-1", "letter-body", "letter-error",
}, secrets...)

// fill makes records in every state, steps, messages, locks, a worker number and counts.
func (p *place) fill(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	key := func(id string) retrysafe.Key {
		return retrysafe.Key{Tenant: secrets[0], Operation: "POST /payments", ID: secrets[1] + id}
	}
	if err := p.engine.Issue(ctx, key("-issued"), time.Hour); err != nil {
		t.Fatal(err)
	}
	running, _, err := p.engine.Begin(ctx, key("-running"))
	if err != nil {
		t.Fatal(err)
	}
	// it may be resolved
	t.Cleanup(func() { _ = running.Release(context.Background(), errors.New("the test is over")) })
	for id, end := range map[string]error{
		"-failed":   retrysafe.Permanent("declined", errors.New("failure-secret")),
		"-released": retrysafe.NothingDone(errors.New("released-secret")),
	} {
		if _, err := retrysafe.Do(ctx, p.engine, key(id), func(context.Context) (string, error) { return "", end }); err == nil {
			t.Fatalf("%s has no error", id)
		}
	}
	order := retrysafe.NewOperation(p.engine.Layer("fn"), "order", func(ctx context.Context, _ string) (string, error) {
		if _, err := retrysafe.Step(ctx, "reserve", func(context.Context) (string, error) { return "step-secret", nil }); err != nil {
			return "", err
		}
		return retrysafe.Step(ctx, "pay", func(context.Context) (string, error) {
			return "", retrysafe.InDoubt(errors.New(secrets[4]))
		})
	}, nil).Resumable()
	if _, err := order.Do(ctx, secrets[0], secrets[1]+"-steps", "input-secret"); err == nil {
		t.Fatal("the steps have no error")
	}
	p.worker(t)
	limiter := p.store.(storeapi.Limiter) //nolint:errcheck,forcetypeassert // memstore counts
	if _, err := limiter.Charge(ctx, storeapi.ChargeRequest{
		Namespace: "shop", Tenant: secrets[0], Keys: 3, Bytes: 9, For: time.Hour, Limits: storeapi.Limits{PerSecond: 0.01, Burst: 5},
	}); err != nil {
		t.Fatal(err)
	}
	locks := memlock.New()
	for i := range 3 {
		if _, err := locks.TryLock(ctx, lock.Request{Name: fmt.Sprint("lock-of-alice/", i), Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	p.options.Locks = map[string]lock.Lister{"shop": locks}
	p.options.Traffic = traffic{}
	p.withMessages(t)
	p.queue.letters[0].Reason.Key = textOf(t, storeapi.StoreKey{Namespace: "shop", Layer: "http", Key: p.doubt})
	p.options.DeadLetters["records"] = admin.NewDeadLetters(p.queue, p.records(t), nil)
	p.serve(t)
}

// worker makes the record of a worker number, as package idgen does.
func (p *place) worker(t *testing.T) {
	t.Helper()
	got, err := p.store.Acquire(t.Context(), storeapi.AcquireRequest{
		Key:   storeapi.StoreKey{Namespace: "shop", Layer: "ids", Key: storeapi.Key{Operation: "worker", ID: "7"}},
		Owner: storeapi.Owner{7}, Lease: time.Hour, Retention: time.Hour, OnDoubt: storeapi.Reexecute,
	})
	if err != nil || got.Status != storeapi.StatusAcquired {
		t.Fatal(got, err)
	}
}

func textOf(t *testing.T, k storeapi.StoreKey) string {
	t.Helper()
	text, err := k.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (p *place) records(t *testing.T) *admin.Records {
	t.Helper()
	records, err := admin.NewRecords(p.store, &admin.RecordsOptions{Secret: []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// traffic is that of a gateway with one route.
type traffic struct{}

func (traffic) Routes() []admin.Route {
	return []admin.Route{{Name: "POST /payments", Outcomes: map[string]uint64{"executed": 1}}}
}

func (traffic) History() []admin.Point {
	return []admin.Point{{At: time.Now(), Span: 60, Outcomes: map[string]uint64{"executed": 1}}}
}

// visit is a request of the walk: what follows the prefix, and a body.
type visit struct{ path, body string }

// visits returns requests for every route, by its method and path. Those of changes come last.
func (p *place) visits(t *testing.T) map[string][]visit {
	t.Helper()
	all := map[string][]visit{}
	add := func(route string, visits ...visit) { all[route] = append(all[route], visits...) }
	get := func(route string, paths ...string) {
		for _, path := range paths {
			add("GET "+route, visit{path, ""})
		}
	}
	for _, path := range []string{"/me", "/in-doubt", "/outboxes", "/deadletters", "/locks", "/workers", "/traffic", "/audit"} {
		get(path, path, path+"?limit=2&namespace=shop", path+"?reveal=true")
	}
	get("/audit", "/audit?day=2020-01-31", "/audit?day="+secrets[0])
	get("/records", "/records", "/records?limit=1", "/records?limit=2&tenant="+secrets[0], "/records?state="+secrets[0], "/records?after="+secrets[1])
	states := map[string]bool{}
	for after := ""; ; {
		page := get1[admin.RecordPage](t, p, "/records?limit=2&after="+after)
		get("/records", "/records?limit=2&after="+after)
		for _, r := range page.Records {
			states[r.State] = true
			get("/records/{ref}", "/records/"+r.Ref, "/records/"+r.Ref+"?reveal=true")
			add("POST /records/{ref}/reveal", visit{"/records/" + r.Ref + "/reveal", `{"reason":"x"}`})
			get("/records/search", "/records/search?limit=1&hash="+r.Hash)
			add("POST /records/{ref}/resolve",
				visit{"/records/" + r.Ref + "/resolve", jsonOf(admin.Resolution{Fence: r.Fence + 1, Outcome: "not-done", Reason: "x"})},
				visit{"/records/" + r.Ref + "/resolve", jsonOf(admin.Resolution{Fence: r.Fence, Outcome: "done", Reason: "x"})})
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if want := []string{"completed", "failed", "in-doubt", "in-progress", "issued", "released"}; !slices.Equal(slices.Sorted(maps.Keys(states)), want) {
		t.Errorf("states: %v, want %v", slices.Sorted(maps.Keys(states)), want)
	}
	get("/records/{ref}", "/records/"+secrets[1])
	get("/records/search", "/records/search?hash="+secrets[1])
	found := jsonOf(admin.Key{Layer: "http", Tenant: secrets[0], Operation: "POST /payments", ID: secrets[1]})
	add("POST /records/find",
		visit{"/records/find", found}, visit{"/records/find", jsonOf(admin.Key{Layer: "http", Tenant: secrets[0], ID: strings.Repeat(secrets[1], 100)})},
		visit{"/records/find", `{"` + secrets[0] + `":1}`}, visit{"/records/find", `{"tenant":{"` + secrets[0] + `":1}}`})
	add("POST /records/list",
		visit{"/records/list", jsonOf(admin.OfTenant{Tenant: secrets[0]})}, visit{"/records/list?limit=1&state=completed", jsonOf(admin.OfTenant{Tenant: secrets[0]})},
		visit{"/records/list", jsonOf(admin.OfTenant{Tenant: strings.Repeat(secrets[0], 100)})}, visit{"/records/list", `{"` + secrets[0] + `":1}`})
	add("POST /quotas/find",
		visit{"/quotas/find", jsonOf(admin.Tenant{Tenant: secrets[0]})}, visit{"/quotas/find", jsonOf(admin.Tenant{Tenant: strings.Repeat(secrets[0], 100)})})
	get("/locks/{name}", "/locks/shop", "/locks/shop?limit=1", "/locks/shop?reveal=true", "/locks/lock-of-alice", "/locks/shop?after=lock-of-alice")
	page := get1[admin.Locks](t, p, "/locks/shop?limit=1")
	get("/locks/{name}", "/locks/shop?limit=1&after="+page.Next)
	get("/outboxes/{name}/dead", "/outboxes/shop/dead", "/outboxes/shop/dead?reveal=true", "/outboxes/message-key/dead")
	get("/deadletters/{name}", "/deadletters/orders", "/deadletters/records", "/deadletters/orders?reveal=true", "/deadletters/letter-id-1", "/deadletters/orders?why=letter-error")
	for _, of := range []string{"/locks/shop", "/outboxes/shop/dead", "/deadletters/orders", "/deadletters/records"} {
		route := strings.NewReplacer("shop", "{name}", "orders", "{name}", "records", "{name}").Replace(of)
		add("POST "+route+"/reveal", visit{of + "/reveal", `{"reason":"x"}`}, visit{of + "/reveal?limit=1", `{"` + secrets[0] + `":1}`})
	}
	get("/outboxes/{name}/counts", "/outboxes/shop/counts", "/outboxes/message-key/counts")
	get("/deadletters/{name}/counts", "/deadletters/orders/counts", "/deadletters/records/counts", "/deadletters/letter-id-1/counts")
	letter := get1[[]admin.DeadLetter](t, p, "/deadletters/records")[0].Hash
	for _, action := range []string{"redrive", "discard"} {
		add("POST /outboxes/{name}/"+action, visit{"/outboxes/shop/" + action, `{"places":[10,11],"reason":"x"}`}, visit{"/outboxes/shop/" + action, `{"` + secrets[0] + `":1}`})
		add("POST /deadletters/{name}/"+action,
			visit{"/deadletters/records/" + action, `{"letters":["` + letter + `","0000000000000000"],"reason":"x"}`},
			visit{"/deadletters/orders/" + action, `{"all":true,"count":9,"why":"letter-error","reason":"x"}`})
	}
	return all
}

func get1[T any](t *testing.T, p *place, path string) T {
	t.Helper()
	return get[T](t, p, "vera", path)
}

// order returns the routes that only read first.
func order(names []string) []string {
	changes := func(name string) bool {
		return strings.HasPrefix(name, "POST ") && !strings.HasSuffix(name, "/find")
	}
	reads := slices.DeleteFunc(slices.Clone(names), changes)
	return append(reads, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !changes(name) })...)
}

// walk makes each visit as each caller without the role reveal, and looks for hidden texts in whole
// answers. It returns how often each status was answered.
func (p *place) walk(t *testing.T, visits map[string][]visit) map[int]int {
	t.Helper()
	statuses := map[int]int{}
	for _, name := range order(admin.RouteNames()) {
		if len(visits[name]) == 0 {
			t.Errorf("the walk has no visit of %s: add one, and look that its answer hides what it must", name)
		}
		method, _, _ := strings.Cut(name, " ")
		for _, v := range visits[name] {
			for _, who := range []string{"", "vera", "rita"} {
				r := httptest.NewRequest(method, "http://127.0.0.1:9090/api/v1"+v.path, strings.NewReader(v.body))
				r.RemoteAddr = "127.0.0.1:50000"
				if v.body != "" {
					r.Header.Set("Content-Type", "application/json")
				}
				if who != "" {
					r.Header.Set("Authorization", "Bearer token-of-"+who)
				}
				w := httptest.NewRecorder()
				p.server.ServeHTTP(w, r)
				statuses[w.Code]++
				var whole bytes.Buffer
				_ = w.Result().Write(&whole)
				for _, s := range hidden {
					if bytes.Contains(whole.Bytes(), []byte(s)) {
						t.Errorf("%s %.100s as %q shows %q: %s", method, v.path, who, s, whole.Bytes())
					}
				}
			}
		}
	}
	return statuses
}

// TestWalk visits every route as callers without the role reveal, over a store with everything in
// it. A route that is new has to be added to visits.
func TestWalk(t *testing.T) {
	p := open(t)
	var log bytes.Buffer
	p.options.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	p.fill(t)
	visits := p.visits(t)
	names := admin.RouteNames()
	for name := range visits {
		if !slices.Contains(names, name) {
			t.Errorf("the walk visits %s, which is no route", name)
		}
	}
	statuses := p.walk(t, visits)
	for _, want := range []int{http.StatusOK, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict} {
		if statuses[want] == 0 {
			t.Errorf("no visit was answered with %d: %v", want, statuses)
		}
	}
	if statuses[http.StatusServiceUnavailable]+statuses[http.StatusInternalServerError] > 0 {
		t.Errorf("visits failed: %v\n%s", statuses, &log)
	}
	for _, s := range hidden {
		if strings.Contains(log.String(), s) {
			t.Errorf("the log has %q: %s", s, &log)
		}
	}
}

// TestWalkOfAStoreThatIsAway: errors of a store may quote what it was asked for. They stay in the
// log.
func TestWalkOfAStoreThatIsAway(t *testing.T) {
	p := open(t)
	p.fill(t)
	visits := p.visits(t)
	p.store = away{p.store, p.store.(storeapi.Lister)} //nolint:errcheck,forcetypeassert // memstore lists
	p.options.Audit = admin.NewAudit(p.store, "shop", 0)
	p.options.Locks = map[string]lock.Lister{"shop": awayLocks{}}
	p.serve(t)
	if statuses := p.walk(t, visits); statuses[http.StatusServiceUnavailable] < 20 {
		t.Errorf("few visits have met the store: %v", statuses)
	}
}

// away is a store whose errors quote secrets.
type away struct {
	storeapi.Store
	storeapi.Lister
}

func errAway() error {
	return errors.New("no answer for " + secrets[0] + "/" + secrets[1] + ": connection to lock-of-alice refused")
}

func (away) Lookup(context.Context, storeapi.StoreKey) (storeapi.Record, error) {
	return storeapi.Record{}, errAway()
}

func (away) List(context.Context, storeapi.ListRequest) (storeapi.Page, error) {
	return storeapi.Page{}, errAway()
}

func (away) Usage(context.Context, storeapi.UsageRequest) (storeapi.Usage, error) {
	return storeapi.Usage{}, errAway()
}

type awayLocks struct{}

func (awayLocks) List(context.Context, lock.ListRequest) (lock.Page, error) {
	return lock.Page{}, errAway()
}
