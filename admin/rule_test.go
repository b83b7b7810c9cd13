package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// TestOutboxByRule: all messages of a topic are counted, and then redriven; one that was given up
// after the count stays.
func TestOutboxByRule(t *testing.T) {
	p := open(t)
	box, at := &deadOutbox{}, time.Date(2026, 1, 31, 12, 0, 0, 123, time.UTC)
	add := func(topic string, died time.Time) {
		n := len(box.dead)
		box.dead = append(box.dead, outbox.DeadMessage{ID: fmt.Sprint("m-", n), Topic: topic, Place: int64(10 + n), Died: died})
	}
	for i := range 6 {
		add([]string{"orders", "orders", "mail"}[i%3], at.Add(time.Duration(i)*time.Second))
	}
	p.options.Outboxes = map[string]admin.Outbox{"shop": box}
	p.serve(t)
	counts := get[admin.DeadCounts](t, p, "vera", "/outboxes/shop/counts")
	if counts.Count != 6 || counts.More || len(counts.Groups) != 2 || counts.Groups[0].Topic != "orders" || counts.Groups[0].Count != 4 ||
		!counts.Groups[0].Until.Equal(at.Add(4*time.Second)) || !counts.Until.Equal(at.Add(5*time.Second)) {
		t.Fatalf("counts: %s", jsonOf(counts))
	}
	add("orders", at.Add(time.Minute))
	rule := admin.Disposal{All: true, Topic: "orders", Until: counts.Groups[0].Until, Count: 3, Reason: "the route is back"}
	redrive := func(want string) {
		t.Helper()
		if status, text := p.ask(t, "rita", "POST", "/outboxes/shop/redrive", jsonOf(rule), nil); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", jsonOf(rule), status, text, want)
		}
	}
	redrive(`"done":3,"gone":0,"more":true`)
	rule.Count = 4
	redrive(`"done":1,"gone":0,"more":false`)
	if left := placesOf(box); !slices.Equal(left, []int64{12, 15, 16}) {
		t.Errorf("left: %v; those of the other topic, and the one that was given up later", left)
	}
	log := auditLog(t, p, "/audit")
	if e := log.Entries[len(log.Entries)-1]; e.Detail != `3 messages: all, topic "orders", until 2026-01-31T12:00:04.000000123Z, at most 3: 10 11 13` {
		t.Errorf("audit log: %+v", e)
	}
}

func placesOf(box *deadOutbox) (places []int64) {
	for i := range box.dead {
		places = append(places, box.dead[i].Place)
	}
	return places
}

// TestLettersByRule is TestOutboxByRule for the dead letters of a queue.
func TestLettersByRule(t *testing.T) {
	p := open(t)
	q, at := &queue{}, time.Date(2026, 1, 31, 12, 0, 0, 123, time.UTC)
	add := func(why, consumer string, died time.Time) {
		q.letters = append(q.letters, &mqidem.DeadLetter{
			Message: &mqidem.Message{ID: fmt.Sprint("m-", len(q.letters)), Source: "orders"},
			Reason:  mqidem.Reason{Why: why, Consumer: consumer, At: died},
		})
	}
	for i := range 6 {
		add([]string{"tries", "poison"}[i%2], []string{"mailer", "stock"}[i/4], at.Add(time.Duration(i)*time.Second))
	}
	p.options.DeadLetters = map[string]*admin.DeadLetters{"orders": admin.NewDeadLetters(q, nil, []byte("0123456789abcdef"))}
	p.serve(t)
	counts := get[admin.DeadCounts](t, p, "vera", "/deadletters/orders/counts")
	if counts.Count != 6 || len(counts.Groups) != 2 || counts.Groups[0].Why != "tries" || counts.Groups[0].Count != 3 || counts.Groups[1].Count != 3 {
		t.Fatalf("counts: %s", jsonOf(counts))
	}
	rule := admin.Disposal{All: true, Why: "tries", Consumer: "mailer", Until: counts.Groups[0].Until, Count: 1, Reason: "the mailer is back"}
	add("tries", "mailer", at.Add(time.Minute))
	status, text := p.ask(t, "rita", "POST", "/deadletters/orders/redrive", jsonOf(rule), nil)
	if status != 200 || !strings.Contains(text, `"done":1,"gone":0,"more":true`) || !slices.Equal(q.sent, []string{"m-0"}) {
		t.Errorf("redrive of one: %d %s, sent %v", status, text, q.sent)
	}
	status, text = p.ask(t, "rita", "POST", "/deadletters/orders/redrive", jsonOf(rule), nil)
	if status != 200 || !strings.Contains(text, `"more":false`) || !slices.Equal(q.sent, []string{"m-0", "m-2"}) || len(q.letters) != 5 {
		t.Errorf("redrive of the other: %d %s, sent %v, %d left", status, text, q.sent, len(q.letters))
	}
	hash := get[[]admin.DeadLetter](t, p, "vera", "/deadletters/orders?why=poison&limit=1")[0].Hash
	if status, text = p.ask(t, "rita", "POST", "/deadletters/orders/discard", `{"reason":"x","all":true,"count":1,"why":"poison"}`, nil); status != 200 {
		t.Errorf("discard: %d %s", status, text)
	}
	if e := auditLog(t, p, "/audit").Entries[0]; e.Detail != "1 done, 0 gone, 0 left: "+hash {
		t.Errorf("the log does not say what was discarded: %+v", e)
	}
	if status, text = p.ask(t, "vera", "GET", "/deadletters/orders?why=zzz", "", nil); status != 400 || !strings.Contains(text, "tries, poison") {
		t.Errorf("an unknown reason: %d %s", status, text)
	}
	if e := auditLog(t, p, "/audit").Entries[3]; !strings.HasPrefix(e.Detail, `all, why "tries", consumer "mailer", until 2026-`) {
		t.Errorf("audit log: %+v", e)
	}
}

// TestRulesThatCannotBe: what names nothing, or two things, does nothing.
func TestRulesThatCannotBe(t *testing.T) {
	p := open(t)
	p.withMessages(t)
	for _, body := range []string{
		`{"reason":"x"}`, `{"reason":"x","topic":"orders"}`, `{"reason":"x","why":"tries"}`, `{"all":true}`,
		`{"reason":"x","all":true,"count":-1}`, `{"reason":"x","all":true,"count":10001}`,
		`{"reason":"x","all":true,"count":1,"why":"zzz"}`, `{"reason":"x","all":true}`, `{"reason":"x","all":true,"count":0}`, `{"reason":"x","all":true,"count":null}`,
		`{"reason":"x","all":true,"count":1,"until":"yesterday"}`, `{"reason":"x","all":true,"count":1,"topic":"a\u202eb"}`,
	} {
		for _, path := range []string{"/outboxes/shop/discard", "/deadletters/orders/discard", "/outboxes/shop/redrive", "/deadletters/orders/redrive"} {
			if status, text := p.ask(t, "rita", "POST", path, body, nil); status != 400 {
				t.Errorf("%s %s: %d %s", path, body, status, text)
			}
		}
	}
	for path, bodies := range map[string][]string{
		"/outboxes/shop/discard": {
			`{"reason":"x","all":true,"count":1,"why":"tries"}`, `{"reason":"x","all":true,"count":1,"consumer":"c"}`, `{"reason":"x","letters":["0000000000000000"]}`,
			`{"reason":"x","places":[10],"topic":"orders"}`,
		},
		"/deadletters/orders/discard": {`{"reason":"x","all":true,"count":1,"topic":"orders"}`, `{"reason":"x","places":[10]}`},
	} {
		for _, body := range bodies {
			if status, text := p.ask(t, "rita", "POST", path, body, nil); status != 400 {
				t.Errorf("%s %s: %d %s", path, body, status, text)
			}
		}
	}
	if len(p.box.dead) != 1 || len(p.queue.letters) != 1 {
		t.Error("something was discarded")
	}
}
