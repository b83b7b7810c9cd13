package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
)

// withBank adds a record in doubt of another service to the store. It returns its reference.
func (p *place) withBank(t *testing.T) (ref string) {
	t.Helper()
	bank := retrysafe.New(p.store, &retrysafe.Options{Namespace: "bank", Secret: []byte("0123456789abcdef0123456789abcdef")}).Layer("http")
	t.Cleanup(func() { _ = bank.Shutdown(context.Background()) })
	_, err := retrysafe.Do(t.Context(), bank, retrysafe.Key{Operation: "POST /transfers", ID: "transfer-1"}, func(context.Context) (string, error) {
		return "", retrysafe.InDoubt(errors.New("no route"))
	})
	if err == nil {
		t.Fatal("the outcome is not in doubt")
	}
	p.options.AllNamespaces = true
	p.serve(t)
	list := get[admin.RecordPage](t, p, "vera", "/records?namespace=bank&state=in-doubt").Records
	p.options.AllNamespaces = false
	p.serve(t)
	if len(list) != 1 {
		t.Fatalf("%d records of the bank, want 1", len(list))
	}
	return list[0].Ref
}

// TestOtherNamespacesAreOutOfReach: who looks after one service does not see, reveal or resolve the
// records of another one in the same store, and is not told whether they exist.
func TestOtherNamespacesAreOutOfReach(t *testing.T) {
	p := open(t)
	ref := p.withBank(t)
	find := `{"layer":"http","tenant":"","operation":"POST /transfers","namespace":`
	resolve := `{"fence":1,"outcome":"not-done","reason":"x"}`
	for _, c := range []struct {
		who, method, path, body string
		want                    int
	}{
		{"vera", "GET", "/records?namespace=bank", "", 403},
		{"vera", "GET", "/in-doubt?namespace=bank", "", 403},
		{"vera", "GET", "/workers?namespace=bank", "", 403},
		{"vera", "GET", "/audit?namespace=bank", "", 403},
		{"vera", "GET", "/records/search?namespace=bank&hash=0123456789abcdef", "", 403},
		{"vera", "POST", "/records/list?namespace=bank", `{"tenant":""}`, 403},
		{"vera", "POST", "/records/find", find + `"bank","id":"transfer-1"}`, 403},
		{"vera", "POST", "/records/find", find + `"bank","id":"transfer-2"}`, 403},
		{"vera", "POST", "/records/find", find + `"no-such-service","id":"transfer-1"}`, 403},
		{"vera", "POST", "/quotas/find", `{"namespace":"bank","tenant":""}`, 403},
		{"vera", "GET", "/records/" + ref, "", 404},
		{"rex", "POST", "/records/" + ref + "/reveal", `{"reason":"x"}`, 404},
		{"rita", "POST", "/records/" + ref + "/resolve", resolve, 404},
	} {
		status, text := p.ask(t, c.who, c.method, c.path, c.body, nil)
		if status != c.want || strings.Contains(text, "transfer") {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, status, text, c.want)
		}
	}
	_, there := p.ask(t, "vera", "GET", "/records/"+ref, "", nil)
	if _, none := p.ask(t, "vera", "GET", "/records/AAAA", "", nil); there != none {
		t.Errorf("a record out of reach: %s, and none: %s", there, none)
	}
	for _, r := range get[admin.RecordPage](t, p, "vera", "/records?namespace=").Records {
		if r.Namespace != "shop" {
			t.Errorf("a record of %s is shown", r.Namespace)
		}
	}
	p.options.Namespaces = []string{"bank"}
	p.serve(t)
	get[admin.Detail](t, p, "vera", "/records/"+ref)
	if list := get[admin.RecordPage](t, p, "vera", "/records?namespace=bank&state=in-doubt").Records; len(list) != 1 {
		t.Errorf("%d records of a namespace that is within reach, want 1", len(list))
	}
	records, err := admin.NewRecords(p.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.New(records, &admin.Options{Namespaces: []string{"bank"}}); err == nil {
		t.Error("namespaces without one of its own are accepted")
	}
}

// TestActionsAreInTheLogOfTheRecord: what is done to a record is in the log of its namespace, from
// whichever server it was done.
func TestActionsAreInTheLogOfTheRecord(t *testing.T) {
	p := open(t)
	ref := p.withBank(t)
	p.options.AllNamespaces = true
	p.serve(t)
	revealed[admin.Detail](t, p, "/records/"+ref+"/reveal")
	fence := jsonOf(get[admin.Detail](t, p, "vera", "/records/"+ref).Fence)
	if status, text := p.ask(t, "rita", "POST", "/records/"+ref+"/resolve", `{"fence":`+fence+`,"outcome":"not-done","reason":"x"}`, nil); status != 200 {
		t.Fatalf("resolve: %d %s", status, text)
	}
	for namespace, want := range map[string]int{"bank": 4, "shop": 0} {
		if entries := auditEntries(t, admin.NewAudit(p.store, namespace, 0)); len(entries) != want {
			t.Errorf("log of %s: %d entries, want %d: %v", namespace, len(entries), want, entries)
		}
	}
	if log := auditLog(t, p, "/audit?namespace=bank"); len(log.Entries) != 4 {
		t.Errorf("the log of the bank: %+v", log)
	}
}

// TestOriginOfAName: an entry says how the name in it is known, and a caller cannot choose that.
func TestOriginOfAName(t *testing.T) {
	p := open(t)
	ref := p.inDoubt(t).Ref
	p.options.TrustedProxy = &admin.TrustedProxy{
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}, UserHeader: "X-User", RolesHeader: "X-Groups",
		Roles: map[string]admin.Roles{"ops": admin.View | admin.Reveal},
	}
	p.serve(t)
	look := `{"reason":"x"}`
	for who, change := range map[string]func(*http.Request){
		// from elsewhere
		"rex": func(r *http.Request) { r.Header.Set("X-User", "ann"); r.Header.Set("X-Groups", "ops") },
		"": func(r *http.Request) {
			r.RemoteAddr = "192.0.2.7:1"
			r.Header.Set("X-User", "ann")
			r.Header.Set("X-Groups", "ops")
		},
	} {
		if status, text := p.ask(t, who, "POST", "/records/"+ref+"/reveal", look, change); status != 200 {
			t.Fatalf("reveal by %q: %d %s", who, status, text)
		}
	}
	if status, text := p.ask(t, "rex", "POST", "/records/"+ref+"/reveal", `{"reason":"x","origin":"proxy"}`, nil); status != 400 {
		t.Errorf("a caller that chooses it: %d %s", status, text)
	}
	got := map[string]int{}
	for _, e := range auditLog(t, p, "/audit").Entries {
		got[e.Who+" "+e.Origin]++
	}
	if len(got) != 2 || got["rex token"] != 2 || got["ann proxy"] != 2 {
		t.Errorf("origins: %v", got)
	}
}

// TestAnotherSecret: of a namespace that was used with another secret, nothing is changed or
// revealed, and nothing is written to its audit log: no one would find the hashes there.
func TestAnotherSecret(t *testing.T) {
	p := open(t)
	ref := p.withBank(t)
	p.options.AllNamespaces = true
	p.serve(t)
	reveal, resolve := "/records/"+ref+"/reveal", "/records/"+ref+"/resolve"
	if status, text := p.ask(t, "rex", "POST", reveal, `{"reason":"x"}`, nil); status != 200 {
		t.Fatalf("without a check value: %d %s", status, text)
	}
	bank := retrysafe.New(p.store, &retrysafe.Options{Namespace: "bank", Secret: []byte(otherSecret)})
	t.Cleanup(func() { _ = bank.Shutdown(context.Background()) })
	if err := bank.CheckSecret(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := get[admin.Detail](t, p, "vera", "/records/"+ref)
	entries := len(auditLog(t, p, "/audit?namespace=bank").Entries)
	for path, c := range map[string]struct{ who, body string }{
		reveal:  {"rex", `{"reason":"x"}`},
		resolve: {"rita", fmt.Sprintf(`{"fence":%d,"outcome":"not-done","reason":"x"}`, before.Fence)},
	} {
		status, text := p.ask(t, c.who, "POST", path, c.body, nil)
		if status != 409 || !strings.Contains(text, `"other-secret"`) || strings.Contains(text, "transfer-1") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if after := get[admin.Detail](t, p, "vera", "/records/"+ref); after.Fence != before.Fence || after.State != before.State {
		t.Errorf("the record is %+v, and was %+v", after, before)
	}
	if n := len(auditLog(t, p, "/audit?namespace=bank").Entries); n != entries {
		t.Errorf("%d entries, and %d before", n, entries)
	}
}
