package admin_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// secrets are texts of the service's callers that stand in records.
var secrets = []string{"tenant-4711", "key-of-alice", "4000-0000-0000-0002", "sid=cookie", "no route to bank"}

// place is a server with some records.
type place struct {
	store   storeapi.Store
	server  *admin.Server
	engine  *retrysafe.Engine
	doubt   retrysafe.Key
	done    retrysafe.Key
	options admin.Options
	box     *deadOutbox // of withMessages
	queue   *queue
}

func tokens() admin.Tokens {
	t := admin.Tokens{}
	for _, c := range []admin.Caller{
		{Name: "vera", Roles: admin.View},
		{Name: "rita", Roles: admin.View | admin.Resolve},
		{Name: "rex", Roles: admin.View | admin.Reveal},
	} {
		t[sha256.Sum256([]byte("token-of-"+c.Name))] = c
	}
	return t
}

// open makes a record in doubt and one that is completed.
func open(t *testing.T) *place {
	t.Helper()
	p := &place{store: memstore.New(nil)}
	p.engine = retrysafe.New(p.store, &retrysafe.Options{Namespace: "shop", Secret: []byte("0123456789abcdef0123456789abcdef")}).Layer("http")
	t.Cleanup(func() { _ = p.engine.Shutdown(context.Background()) })
	p.doubt = retrysafe.Key{Tenant: secrets[0], Operation: "POST /payments", ID: secrets[1]}
	_, err := retrysafe.Do(t.Context(), p.engine, p.doubt, func(context.Context) (string, error) {
		return "", retrysafe.InDoubt(errors.New(secrets[4]))
	})
	if err == nil {
		t.Fatal("the outcome is not in doubt")
	}
	p.done = retrysafe.Key{Tenant: secrets[0], Operation: "POST /orders", ID: secrets[1] + "-2"}
	a, _, err := p.engine.Begin(t.Context(), p.done)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := httpidem.StoredAnswer(201, http.Header{"Location": {"/orders/1"}, "X-Session": {secrets[3]}}, []byte(`{"card":"`+secrets[2]+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Complete(t.Context(), answer); err != nil {
		t.Fatal(err)
	}
	p.options = admin.Options{Tokens: tokens(), Audit: admin.NewAudit(p.store, "shop", 0), Namespace: "shop", Console: true}
	p.serve(t)
	return p
}

func (p *place) serve(t *testing.T) {
	t.Helper()
	records, err := admin.NewRecords(p.store, &admin.RecordsOptions{Secret: []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	if p.server, err = admin.New(records, &p.options); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request from the loopback interface and returns the answer. who is the owner of the
// token, or empty. change may be nil.
func (p *place) ask(t *testing.T, who, method, path, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:9090/api/v1"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:50000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer token-of-"+who)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(text)
}

// get returns a document.
func get[T any](t *testing.T, p *place, who, path string) (out T) {
	t.Helper()
	status, text := p.ask(t, who, "GET", path, "", nil)
	if status != 200 {
		t.Fatalf("GET %s as %q: %d %s", path, who, status, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// auditLog returns the entries of today and yesterday, since midnight may have passed during the
// test.
func auditLog(t *testing.T, p *place, path string) (out admin.Log) {
	t.Helper()
	query := "?"
	if strings.Contains(path, "?") {
		query = "&"
	}
	for _, day := range lastDays() {
		out.Entries = append(out.Entries, get[admin.Log](t, p, "vera", path+query+"day="+day.Format(time.DateOnly)).Entries...)
	}
	return out
}

// auditEntries is auditLog for a log that is read directly.
func auditEntries(t *testing.T, log *admin.Audit) (all []admin.Entry) {
	t.Helper()
	for _, day := range lastDays() {
		part, _, err := log.Read(t.Context(), day, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part...)
	}
	return all
}

func lastDays() []time.Time {
	now := time.Now().UTC()
	return []time.Time{now, now.AddDate(0, 0, -1)}
}

// revealed returns a document with what is hidden.
func revealed[T any](t *testing.T, p *place, path string) (out T) {
	t.Helper()
	status, text := p.ask(t, "rex", "POST", path, `{"reason":"why"}`, nil)
	if status != 200 {
		t.Fatalf("POST %s: %d %s", path, status, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// inDoubt returns the record in doubt.
func (p *place) inDoubt(t *testing.T) admin.Record {
	t.Helper()
	list := get[admin.RecordPage](t, p, "vera", "/records?state=in-doubt")
	if len(list.Records) != 1 {
		t.Fatalf("%d records in doubt, want 1", len(list.Records))
	}
	return list.Records[0]
}

func TestDoubtIsSeenAndResolved(t *testing.T) {
	p := open(t)
	counts := get[admin.InDoubt](t, p, "vera", "/in-doubt")
	if counts.Total != 1 || len(counts.Causes) != 1 || counts.Ages[0].Count != 1 {
		t.Errorf("doubts: %+v", counts)
	}
	if counts = get[admin.InDoubt](t, p, "vera", "/in-doubt?limit=1"); counts.Total != 1 || !counts.More {
		t.Errorf("doubts, at most 1: %+v", counts)
	}
	for _, limit := range []string{"0", "1001", "x"} {
		if status, text := p.ask(t, "vera", "GET", "/in-doubt?limit="+limit, "", nil); status != 400 {
			t.Errorf("limit %s: %d %s", limit, status, text)
		}
	}
	r := p.inDoubt(t)
	if r.Operation != p.doubt.Operation || r.State != "in-doubt" || r.OnDoubt != "refuse" || r.Hash != p.engine.KeyHash(p.doubt) {
		t.Errorf("record in doubt: %+v", r)
	}
	body := func(fence uint64) string {
		text, _ := json.Marshal(admin.Resolution{Fence: fence, Outcome: "done", Status: 201, Body: `{"id":7}`, Location: "/payments/7", Reason: "found it at the bank"})
		return string(text)
	}
	if status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", body(r.Fence+1), nil); status != 409 || !strings.Contains(text, `"changed"`) {
		t.Errorf("another fence: %d %s", status, text)
	}
	if status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", body(r.Fence), nil); status != 200 {
		t.Fatalf("resolve: %d %s", status, text)
	}
	rec, err := p.engine.Lookup(t.Context(), p.doubt)
	if err != nil {
		t.Fatal(err)
	}
	status, h, stored, err := httpidem.ReadStored(rec.Answer)
	if err != nil || status != 201 || h.Get("Location") != "/payments/7" || string(stored) != `{"id":7}` {
		t.Errorf("stored answer: %d %v %q %v", status, h, stored, err)
	}
	if status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", body(uint64(rec.Fence)), nil); status != 409 || !strings.Contains(text, `"completed"`) {
		t.Errorf("resolved twice: %d %s", status, text)
	}
	log := auditLog(t, p, "/audit")
	if n := len(log.Entries); n != 6 {
		t.Fatalf("%d entries, want 6: %+v", n, log.Entries)
	}
	last, begun := log.Entries[2], log.Entries[3]
	if last.Result != "done" || last.Of != begun.Number || begun.Result != "begun" || begun.Who != "rita" ||
		begun.Reason != "found it at the bank" || begun.Object != r.Hash || begun.Detail != "done" {
		t.Errorf("entries of the resolution: %+v and %+v", begun, last)
	}
}

// byIndex is a store with an index of records in doubt.
type byIndex struct{ *memstore.Store }

func (s byIndex) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	page, err := s.Store.List(ctx, req)
	page.Scans = !req.InDoubt
	return page, err
}

// TestScans: a list says whether the store has scanned for it.
func TestScans(t *testing.T) {
	p := open(t)
	if !get[admin.RecordPage](t, p, "vera", "/records?state=in-doubt").Scans {
		t.Error("the store has no index, and the list does not say that it scans")
	}
	p.store = byIndex{memstore.New(nil)}
	p.serve(t)
	if get[admin.RecordPage](t, p, "vera", "/records?state=in-doubt").Scans {
		t.Error("the list is by index, and says that it scans")
	}
	if !get[admin.RecordPage](t, p, "vera", "/records?state=completed").Scans {
		t.Error("the list does not say that it scans")
	}
}

// paged is a store that counts what is asked of it, and takes some time for each page.
type paged struct {
	*memstore.Store
	takes time.Duration
	asked []storeapi.ListRequest
}

func (s *paged) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	s.asked = append(s.asked, req)
	<-time.After(s.takes)
	return s.Store.List(ctx, req)
}

// TestScanIsInParts: what no index serves is read in parts that end, and each says how much was
// read. The store is never asked for a page that it would have to read everything for.
func TestScanIsInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		s := &paged{Store: memstore.New(nil), takes: 600 * time.Millisecond}
		for i := range 250 {
			req := storeapi.AcquireRequest{
				Key:   storeapi.StoreKey{Namespace: "shop", Layer: "fn", Key: storeapi.Key{Operation: "op", ID: fmt.Sprintf("%03d", i)}},
				Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour,
			}
			got, err := s.Acquire(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			state := storeapi.StateCompleted
			if i == 249 {
				state = storeapi.StateFailed
			}
			if _, err := s.Complete(t.Context(), storeapi.CompleteRequest{
				Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, State: state, Answer: storeapi.Answer{Codec: "json"}, Retention: time.Hour,
			}); err != nil {
				t.Fatal(err)
			}
		}
		p.store = s
		p.serve(t)
		first := get[admin.RecordPage](t, p, "vera", "/records?state=failed&operation=op&limit=100")
		if len(first.Records) != 0 || first.Read != 200 || !first.Scans || first.Next == "" {
			t.Errorf("the first part: %+v", first)
		}
		rest := get[admin.RecordPage](t, p, "vera", "/records?state=failed&operation=op&limit=100&after="+first.Next)
		if len(rest.Records) != 1 || rest.Read != 50 || rest.Next != "" {
			t.Errorf("the second part: %+v", rest)
		}
		for _, req := range s.asked {
			if req.State != 0 || req.Operation != "" || req.Limit != 100 {
				t.Errorf("the store was asked for what it has no index of: %+v", req)
			}
		}
		s.asked = nil
		get[admin.RecordPage](t, p, "vera", "/records?state=in-progress&operation=op")
		if len(s.asked) != 1 || s.asked[0].State != storeapi.StateInProgress || s.asked[0].Operation != "op" {
			t.Errorf("the store was not asked for what it has an index of: %+v", s.asked)
		}
	})
}

// TestListOfTenant: the tenant of a list can stand in the body.
func TestListOfTenant(t *testing.T) {
	p := open(t)
	for tenant, want := range map[string]int{secrets[0]: 2, "another": 0} {
		status, text := p.ask(t, "vera", "POST", "/records/list?limit=10", jsonOf(admin.OfTenant{Tenant: tenant}), nil)
		var page admin.RecordPage
		if err := json.Unmarshal([]byte(text), &page); status != 200 || err != nil || len(page.Records) != want {
			t.Errorf("records of %q: %d %s", tenant, status, text)
		}
	}
}

// TestListByCauseAndAge: the parts that the counts of doubts name can be listed.
func TestListByCauseAndAge(t *testing.T) {
	p := open(t)
	for query, want := range map[string]int{
		"cause=marked": 1, "cause=crash": 0, "younger=3600": 1, "younger=0": 0, "older=3600": 0,
		"on_doubt=refuse": 1, "on_doubt=reexecute": 0,
	} {
		query = strings.Replace(query, "marked", p.inDoubt(t).Cause, 1)
		if list := get[admin.RecordPage](t, p, "vera", "/records?state=in-doubt&"+query); len(list.Records) != want {
			t.Errorf("%s: %d records, want %d", query, len(list.Records), want)
		}
	}
}

// TestAnswerOfAnotherLayer: an HTTP answer is no answer of a function, whose duplicates could not
// read it.
func TestAnswerOfAnotherLayer(t *testing.T) {
	p := open(t)
	e := p.engine.Layer("fn")
	_, _ = retrysafe.Do(t.Context(), e, p.doubt, func(context.Context) (string, error) {
		return "", retrysafe.InDoubt(errors.New("unknown"))
	})
	r := get[admin.RecordPage](t, p, "vera", "/records?state=in-doubt&layer=fn").Records[0]
	body := `{"fence":` + jsonOf(r.Fence) + `,"outcome":"done","reason":"x"`
	if status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", body+`,"status":201}`, nil); status != 400 || !strings.Contains(text, "layer fn") {
		t.Errorf("with an answer: %d %s", status, text)
	}
	if status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", body+`}`, nil); status != 200 {
		t.Errorf("without an answer: %d %s", status, text)
	}
}

func TestRoles(t *testing.T) {
	p := open(t)
	r := p.inDoubt(t)
	look := `{"reason":"x"}`
	resolve := `{"fence":` + jsonOf(r.Fence) + `,"outcome":"not-done","reason":"x"}`
	for _, c := range []struct {
		who, method, path, body string
		want                    int
	}{
		{"", "GET", "/records", "", 401},
		{"", "GET", "/records/" + r.Ref, "", 401},
		{"", "POST", "/records/" + r.Ref + "/reveal", look, 401},
		{"", "POST", "/records/" + r.Ref + "/resolve", resolve, 401},
		{"vera", "POST", "/records/" + r.Ref + "/reveal", look, 403},
		{"vera", "POST", "/records/" + r.Ref + "/resolve", resolve, 403},
		{"rex", "POST", "/records/" + r.Ref + "/resolve", resolve, 403},
		{"rita", "POST", "/records/" + r.Ref + "/reveal", look, 403},
		{"nobody", "GET", "/records", "", 401},
		{"rex", "POST", "/records/" + r.Ref + "/reveal", look, 200},
		{"rex", "POST", "/records/" + r.Ref + "/reveal", `{"reason":" "}`, 400},
		{"rex", "POST", "/records/AAAA/reveal", look, 404},
		{"rex", "GET", "/records/" + r.Ref + "/reveal", "", 405},
		{"rita", "POST", "/records/" + r.Ref + "/resolve", `{"fence":1,"outcome":"not-done"}`, 400},
		{"rita", "POST", "/records/" + r.Ref + "/resolve", `{"fence":1,"outcome":"not-done","reason":"x","more":1}`, 400},
		{"rita", "POST", "/records/AAAA/resolve", resolve, 404},
		{"rita", "POST", "/records/" + r.Ref + "/resolve", resolve, 200},
	} {
		if status, text := p.ask(t, c.who, c.method, c.path, c.body, nil); status != c.want {
			t.Errorf("%s %s as %q: %d %s, want %d", c.method, c.path, c.who, status, text, c.want)
		}
	}
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// TestOnlyThisMachine asks without a token in the ways in which others could.
func TestOnlyThisMachine(t *testing.T) {
	p := open(t)
	ref := p.inDoubt(t).Ref
	p.options.Tokens = nil
	p.serve(t)
	for name, change := range map[string]func(*http.Request){
		"another address":     func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" },
		"DNS rebinding":       func(r *http.Request) { r.Host = "evil.example:9090" },
		"a page of elsewhere": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another port":        func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:3000") },
		"a proxy":             func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
		"a proxy of RFC 7239": func(r *http.Request) { r.Header.Set("Forwarded", "for=192.0.2.1") },
		"an empty field":      func(r *http.Request) { r.Header["Via"] = []string{""} },
	} {
		if status, text := p.ask(t, "", "GET", "/records", "", change); status != 401 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"plain":     nil,
		"localhost": func(r *http.Request) { r.Host = "localhost:9090" },
		"IPv6":      func(r *http.Request) { r.Host, r.RemoteAddr = "[::1]:9090", "[::1]:1" },
		"own page":  func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9090") },
	} {
		if status, text := p.ask(t, "", "GET", "/records", "", change); status != 200 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for _, action := range []string{"reveal", "resolve"} {
		if status, text := p.ask(t, "", "POST", "/records/"+ref+"/"+action, `{"reason":"x","fence":1,"outcome":"not-done"}`, nil); status != 403 {
			t.Errorf("%s by a caller on this machine: %d %s", action, status, text)
		}
	}
}

func TestCrossOriginWrites(t *testing.T) {
	p := open(t)
	r := p.inDoubt(t)
	status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", `{"fence":`+jsonOf(r.Fence)+`,"outcome":"not-done","reason":"x"}`, func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if status != 403 || !strings.Contains(text, "cross-origin") {
		t.Errorf("a write from another site: %d %s", status, text)
	}
	status, _ = p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	if status != 415 {
		t.Errorf("a form's media type: %d", status)
	}
	p.inDoubt(t)
}

// TestNothingHiddenIsShown reads everything without the role reveal.
func TestNothingHiddenIsShown(t *testing.T) {
	p := open(t)
	var all strings.Builder
	paths := []string{"/me", "/in-doubt", "/records", "/records?tenant=" + secrets[0], "/outboxes", "/deadletters", "/workers", "/traffic", "/audit", "/openapi.json"}
	for _, r := range get[admin.RecordPage](t, p, "vera", "/records").Records {
		paths = append(paths, "/records/"+r.Ref, "/records/search?hash="+r.Hash)
	}
	if len(paths) != 14 {
		t.Fatalf("%d paths, want two records", len(paths))
	}
	for _, who := range []string{"vera", "rita"} {
		for _, path := range paths {
			status, text := p.ask(t, who, "GET", path, "", nil)
			if status != 200 {
				t.Errorf("GET %s as %q: %d", path, who, status)
			}
			all.WriteString(text)
		}
	}
	_, text := p.ask(t, "vera", "POST", "/records/find", jsonOf(admin.Key{Layer: "http", Tenant: secrets[0], Operation: "POST /payments", ID: secrets[1]}), nil)
	all.WriteString(text)
	if !strings.Contains(text, p.engine.KeyHash(p.doubt)) {
		t.Errorf("not found by its key: %s", text)
	}
	for _, s := range secrets {
		if strings.Contains(all.String(), s) {
			t.Errorf("%q is shown", s)
		}
	}
}

// TestReveal: what is hidden is shown for a reason, in any language, that stands in no address.
func TestReveal(t *testing.T) {
	p := open(t)
	var shown strings.Builder
	for _, r := range get[admin.RecordPage](t, p, "rex", "/records").Records {
		status, text := p.ask(t, "rex", "POST", "/records/"+r.Ref+"/reveal", `{"reason":"工单 12"}`, nil)
		if status != 200 {
			t.Fatalf("reveal: %d %s", status, text)
		}
		shown.WriteString(text)
		status, text = p.ask(t, "rex", "GET", "/records/"+r.Ref+"?reveal=true&reason=ticket+12", "", nil)
		if status != 400 || strings.Contains(text, "hidden") {
			t.Errorf("revealed by an address: %d %s", status, text)
		}
	}
	for _, s := range secrets {
		if !strings.Contains(shown.String(), s) {
			t.Errorf("%q is not revealed", s)
		}
	}
	log := auditLog(t, p, "/audit")
	if len(log.Entries) != 4 || log.Entries[0].Action != "reveal" || log.Entries[0].Reason != "工单 12" {
		t.Errorf("audit log: %+v", log.Entries)
	}
}

// TestNoAuditNoChange has a store that does not take entries: nothing is done then.
func TestNoAuditNoChange(t *testing.T) {
	p := open(t)
	r := p.inDoubt(t)
	broken := memstore.New(nil)
	p.options.Audit = admin.NewAudit(refusing{broken}, "shop", 0)
	p.serve(t)
	resolve := `{"fence":` + jsonOf(r.Fence) + `,"outcome":"not-done","reason":"x"}`
	if status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", resolve, nil); status != 503 {
		t.Errorf("without an audit log: %d %s", status, text)
	}
	if status, text := p.ask(t, "rex", "POST", "/records/"+r.Ref+"/reveal", `{"reason":"x"}`, nil); status != 503 || strings.Contains(text, secrets[1]) {
		t.Errorf("revealed without an audit log: %d %s", status, text)
	}
	if again := p.inDoubt(t); again.Fence != r.Fence {
		t.Errorf("the record changed: fence %d, was %d", again.Fence, r.Fence)
	}
	p.options.Audit = nil
	p.serve(t)
	if status, text := p.ask(t, "rita", "POST", "/records/"+r.Ref+"/resolve", resolve, nil); status != 403 {
		t.Errorf("with no audit log at all: %d %s", status, text)
	}
}

// refusing is a store that completes nothing.
type refusing struct{ storeapi.Store }

func (refusing) Complete(context.Context, storeapi.CompleteRequest) (storeapi.Record, error) {
	return storeapi.Record{}, errors.New("the disk is full")
}

func TestConsolePage(t *testing.T) {
	p := open(t)
	for path, want := range map[string]int{"/": 200, "/nothing": 404, "/api/v1/nothing": 404, "/api": 404} {
		r := httptest.NewRequest("GET", "http://127.0.0.1:9090"+path, nil)
		w := httptest.NewRecorder()
		p.server.ServeHTTP(w, r)
		if w.Code != want || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("GET %s: %d %v", path, w.Code, w.Header())
		}
	}
}
