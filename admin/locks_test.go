package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

func TestLocks(t *testing.T) {
	p := open(t)
	locks := memlock.New()
	for i := range 5 {
		r := lock.Request{Name: fmt.Sprint("lock-of-alice/", i), Lease: time.Minute}
		if _, err := locks.TryLock(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	p.options.Locks = map[string]lock.Lister{"shop": locks}
	p.serve(t)
	if !get[admin.Me](t, p, "vera", "/me").Locks {
		t.Error("the page is not told that there are locks")
	}
	if names := get[[]string](t, p, "vera", "/locks"); len(names) != 1 || names[0] != "shop" {
		t.Errorf("backends: %v", names)
	}
	hashes, pages := map[string]bool{}, 0
	for after := ""; ; pages++ {
		page := get[admin.Locks](t, p, "vera", "/locks/shop?limit=2&after="+after)
		if text := jsonOf(page); strings.Contains(text, "alice") {
			t.Fatalf("a name is shown: %s", text)
		}
		for _, l := range page.Locks {
			hashes[l.Hash] = true
			if l.Fence == 0 || l.Lease <= 0 || l.Lease > 60 || l.Waiting == nil || *l.Waiting != 0 {
				t.Errorf("lock: %+v", l)
			}
		}
		if after = page.Next; after == "" {
			break
		}
		if strings.Contains(after, "alice") {
			t.Fatalf("the next page has a name: %s", after)
		}
	}
	if len(hashes) != 5 || pages != 2 {
		t.Errorf("%d locks in %d pages, want 5 in 3", len(hashes), pages+1)
	}
	if status, text := p.ask(t, "vera", "POST", "/locks/shop/reveal", `{"reason":"why"}`, nil); status != 403 {
		t.Errorf("revealed to a viewer: %d %s", status, text)
	}
	if page := revealed[admin.Locks](t, p, "/locks/shop/reveal?limit=1"); len(page.Locks) != 1 || page.Locks[0].Name != "lock-of-alice/0" {
		t.Errorf("revealed: %+v", page)
	}
	log := auditLog(t, p, "/audit")
	if len(log.Entries) != 2 || log.Entries[1].Object != "locks shop" || log.Entries[1].Reason != "why" {
		t.Errorf("audit log: %+v", log.Entries)
	}
	for path, want := range map[string]int{"/locks/other": 404, "/locks/shop?after=x": 400, "/locks/shop?limit=x": 400} {
		if status, text := p.ask(t, "vera", "GET", path, "", nil); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// TestPagesAreSealed: where a page of records ends is a key, which must not be shown; and a page is
// no reference of a record.
func TestPagesAreSealed(t *testing.T) {
	p := open(t)
	page := get[admin.RecordPage](t, p, "vera", "/records?limit=1")
	if page.Next == "" || strings.Contains(page.Next, secrets[0]) || strings.Contains(page.Next, secrets[1]) {
		t.Fatalf("next: %q", page.Next)
	}
	rest := get[admin.RecordPage](t, p, "vera", "/records?limit=1&after="+page.Next)
	if len(rest.Records) != 1 || rest.Records[0].Ref == page.Records[0].Ref {
		t.Errorf("the next page: %+v", rest)
	}
	for path, want := range map[string]int{"/records?after=" + page.Records[0].Ref: 400, "/records/" + page.Next: 404, "/records?after=shop": 400} {
		if status, text := p.ask(t, "vera", "GET", path, "", nil); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// unlisted is a backend that cannot list.
type unlisted struct{ lock.Lister }

func (unlisted) List(context.Context, lock.ListRequest) (lock.Page, error) {
	return lock.Page{}, errors.ErrUnsupported
}

func TestNoLocks(t *testing.T) {
	p := open(t)
	if get[admin.Me](t, p, "vera", "/me").Locks {
		t.Error("the page is told that there are locks, and there are none")
	}
	p.options.Locks = map[string]lock.Lister{"shop": unlisted{}}
	p.serve(t)
	if status, text := p.ask(t, "vera", "GET", "/locks/shop", "", nil); status != 404 || !strings.Contains(text, "no-list") {
		t.Errorf("a backend that cannot list: %d %s", status, text)
	}
}
