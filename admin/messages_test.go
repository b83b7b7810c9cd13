package admin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// deadOutbox is an outbox whose messages are all dead.
type deadOutbox struct{ dead []outbox.DeadMessage }

func (o *deadOutbox) Stats(context.Context) (outbox.Stats, error) {
	return outbox.Stats{Dead: len(o.dead), Pending: 3, Oldest: time.Minute}, nil
}

func (o *deadOutbox) Dead(_ context.Context, after int64, limit int) (out []outbox.DeadMessage, err error) {
	for _, m := range o.dead {
		if m.Place > after && len(out) < limit {
			out = append(out, m)
		}
	}
	return out, nil
}

func (o *deadOutbox) Redrive(ctx context.Context, ids ...string) (int, error) {
	return o.Discard(ctx, ids...)
}

func (o *deadOutbox) Discard(_ context.Context, ids ...string) (int, error) {
	before := len(o.dead)
	o.dead = slices.DeleteFunc(o.dead, func(m outbox.DeadMessage) bool { return slices.Contains(ids, m.ID) })
	return before - len(o.dead), nil
}

func TestOutbox(t *testing.T) {
	p := open(t)
	box := &deadOutbox{}
	for i := range 2500 {
		box.dead = append(box.dead, outbox.DeadMessage{ID: fmt.Sprintf("secret-id-%d", i), Key: "secret-key", Topic: "orders", Place: int64(10 + i), Error: "secret-error"})
	}
	p.options.Outboxes = map[string]admin.Outbox{"shop": box}
	p.serve(t)
	if s := get[[]admin.OutboxStats](t, p, "vera", "/outboxes"); len(s) != 1 || s[0].Dead != 2500 || s[0].Oldest != 60 {
		t.Errorf("stats: %+v", s)
	}
	if _, text := p.ask(t, "vera", "GET", "/outboxes/shop/dead?limit=1000", "", nil); strings.Contains(text, "secret") {
		t.Errorf("hidden text is shown: %.200s", text)
	}
	if dead := revealed[[]admin.DeadMessage](t, p, "/outboxes/shop/dead/reveal?after=11&limit=2"); len(dead) != 2 || dead[0].Place != 12 || dead[0].ID != "secret-id-2" {
		t.Errorf("revealed: %+v", dead)
	}
	for body, want := range map[string]int{
		`{"reason":"x"}`: 400,
		`{"reason":"x","all":true,"places":[10]}`: 400,
		`{"all":true}`:                      400,
		`{"reason":"x","places":[10,2000]}`: 200,
	} {
		if status, text := p.ask(t, "rita", "POST", "/outboxes/shop/redrive", body, nil); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, text, want)
		}
	}
	if len(box.dead) != 2498 {
		t.Errorf("%d are dead after two were redriven, want 2498", len(box.dead))
	}
	if status, text := p.ask(t, "rita", "POST", "/outboxes/shop/discard", `{"reason":"x","all":true,"count":10000}`, nil); status != 200 || !strings.Contains(text, `"done":2498`) {
		t.Errorf("discard: %d %s", status, text)
	}
	if status, _ := p.ask(t, "vera", "POST", "/outboxes/shop/discard", `{"reason":"x","all":true,"count":10000}`, nil); status != 403 {
		t.Errorf("discard by a viewer: %d", status)
	}
}

// queue is a dead-letter queue in memory.
type queue struct {
	letters []*mqidem.DeadLetter
	sent    []string
}

func (q *queue) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	kept := []*mqidem.DeadLetter{}
	for i, l := range q.letters {
		v, err := see(ctx, l)
		if err != nil {
			q.letters = append(kept, q.letters[i:]...)
			return err
		}
		if v == mqidem.Keep {
			kept = append(kept, l)
		}
	}
	q.letters = kept
	return nil
}

func (q *queue) Send(_ context.Context, m *mqidem.Message) error {
	q.sent = append(q.sent, m.ID)
	return nil
}

func TestDeadLetters(t *testing.T) {
	p := open(t)
	q := &queue{}
	for _, id := range []string{"secret-1", "secret-2", "secret-3"} {
		q.letters = append(q.letters, &mqidem.DeadLetter{
			Message: &mqidem.Message{ID: id, Source: "orders", Body: []byte("secret-body")},
			Reason:  mqidem.Reason{Why: "tries", Tries: 5, Error: "secret-error", At: time.Now()},
		})
	}
	p.options.DeadLetters = map[string]*admin.DeadLetters{"orders": admin.NewDeadLetters(q, nil, []byte("0123456789abcdef"))}
	p.serve(t)
	if names := get[[]string](t, p, "vera", "/deadletters"); !slices.Equal(names, []string{"orders"}) {
		t.Errorf("queues: %v", names)
	}
	list := get[[]admin.DeadLetter](t, p, "vera", "/deadletters/orders")
	if len(list) != 3 || strings.Contains(jsonOf(list), "secret") || list[0].Record != "none" {
		t.Fatalf("letters: %s", jsonOf(list))
	}
	if got := revealed[[]admin.DeadLetter](t, p, "/deadletters/orders/reveal?limit=1"); len(got) != 1 || got[0].Body != "secret-body" {
		t.Errorf("revealed: %+v", got)
	}
	status, text := p.ask(t, "rita", "POST", "/deadletters/orders/redrive", `{"reason":"x","letters":["`+list[1].Hash+`","0000000000000000"]}`, nil)
	if status != 200 || !strings.Contains(text, "not-found") || !strings.Contains(text, `"done":1`) || !slices.Equal(q.sent, []string{"secret-2"}) || len(q.letters) != 2 {
		t.Errorf("redrive: %d %s; sent %v, %d left", status, text, q.sent, len(q.letters))
	}
	status, text = p.ask(t, "rita", "POST", "/deadletters/orders/discard", `{"reason":"x","all":true,"count":9,"why":"poison"}`, nil)
	if status != 200 || !strings.Contains(text, `"done":0`) || len(q.letters) != 2 {
		t.Errorf("discard of another reason: %d %s", status, text)
	}
	status, text = p.ask(t, "rita", "POST", "/deadletters/orders/discard", `{"reason":"x","all":true,"count":9}`, nil)
	if status != 200 || !strings.Contains(text, `"done":2`) || len(q.letters) != 0 {
		t.Errorf("discard: %d %s", status, text)
	}
}

// withMessages gives the server an outbox and a queue that have dead messages.
func (p *place) withMessages(t *testing.T) {
	t.Helper()
	p.box = &deadOutbox{dead: []outbox.DeadMessage{{ID: "message-id-1", Key: "message-key", Topic: "orders", Place: 10, Error: "message-error"}}}
	p.queue = &queue{letters: []*mqidem.DeadLetter{{
		Message: &mqidem.Message{ID: "letter-id-1", Source: "orders", Body: []byte("letter-body")},
		Reason:  mqidem.Reason{Why: "tries", Tries: 5, Error: "letter-error", At: time.Now()},
	}}}
	p.options.Outboxes = map[string]admin.Outbox{"shop": p.box}
	p.options.DeadLetters = map[string]*admin.DeadLetters{"orders": admin.NewDeadLetters(p.queue, nil, []byte("0123456789abcdef"))}
	p.serve(t)
}
