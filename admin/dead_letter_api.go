package admin

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// deadLetterJSON is a message in a dead-letter queue.
type deadLetterJSON struct {
	Hash     string    `json:"hash" doc:"name of the message; that of its record, if it has one"`
	Why      string    `json:"why" doc:"tries, poison, refused, no-id, too-large, in-doubt, mismatch or unreadable"`
	Consumer string    `json:"consumer,omitempty" doc:"the consumer that gave it up"`
	Tries    int       `json:"tries" doc:"how often it was tried"`
	Redrives int       `json:"redrives" doc:"how often it was redriven"`
	At       time.Time `json:"at" doc:"when it became a dead letter"`
	Record   string    `json:"record" doc:"state of its record: that of a record, or none, gone, unknown, open"`
	Source   string    `json:"source" doc:"where it came from"`
	Bytes    int       `json:"bytes" doc:"size of its body"`
	ID       string    `json:"id,omitempty" doc:"its id; only revealed"`
	Error    string    `json:"error,omitempty" doc:"last error of its handler; only revealed"`
	Body     string    `json:"body,omitempty" doc:"the first 16 KiB of its body; only revealed"`
}

// mostLetter bounds what is revealed of a body.
const mostLetter = 16 << 10

func listQueues(c *apiCall) (any, error) {
	return append([]string{}, slices.Sorted(maps.Keys(c.o.DeadLetters))...), nil
}

func (c *apiCall) findQueue() (string, *DeadLetters, error) {
	name := c.r.PathValue("name")
	d := c.o.DeadLetters[name]
	if d == nil {
		return name, nil, newProblem(http.StatusNotFound, "not-found", "there are no dead letters of this name")
	}
	return name, d, nil
}

func listLetters(c *apiCall) (any, error) {
	_, d, err := c.findQueue()
	if err != nil {
		return nil, err
	}
	limit, err := c.pageLimit()
	if err != nil {
		return nil, err
	}
	return c.selectLetters(d, limit, false)
}

func revealLetters(c *apiCall) (any, error) {
	name, d, err := c.findQueue()
	if err != nil {
		return nil, err
	}
	limit, err := c.pageLimit()
	if err != nil {
		return nil, err
	}
	var out []deadLetterJSON
	err = c.doReveal(c.o.Audit, "dead letters "+name, func() (err error) {
		out, err = c.selectLetters(d, limit, true)
		return err
	})
	return out, err
}

// whys are the reasons of dead letters.
var whys = []string{
	mqidem.DeadTries, mqidem.DeadPoison, mqidem.DeadRefused, mqidem.DeadNoID,
	mqidem.DeadTooLarge, mqidem.DeadInDoubt, mqidem.DeadMismatch, mqidem.DeadUnreadable,
}

// checkWhy returns an error for a reason that no letter can have: it would select none, as if they
// were done.
func checkWhy(why string) error {
	if why != "" && !slices.Contains(whys, why) {
		return badRequest("there is no such why; use " + strings.Join(whys, ", "))
	}
	return nil
}

// selectLetters returns the first letters that the query selects.
func (c *apiCall) selectLetters(d *DeadLetters, limit int, reveal bool) ([]deadLetterJSON, error) {
	choice := Choice{Why: c.r.URL.Query().Get("why"), Consumer: c.r.URL.Query().Get("consumer")}
	if err := checkWhy(choice.Why); err != nil {
		return nil, err
	}
	out := []deadLetterJSON{}
	err := d.Walk(c.r.Context(), func(ctx context.Context, m *mqidem.DeadLetter) bool {
		if choice.Wants(m) {
			out = append(out, d.describeLetter(ctx, m, reveal))
		}
		return len(out) < limit
	})
	return out, err
}

func countLetters(c *apiCall) (any, error) {
	_, d, err := c.findQueue()
	if err != nil {
		return nil, err
	}
	out := &deadCountsJSON{Groups: []deadCountJSON{}}
	err = d.Walk(c.r.Context(), func(_ context.Context, m *mqidem.DeadLetter) bool {
		return out.countMessage(deadCountJSON{Why: m.Reason.Why}, m.Reason.At)
	})
	return out.largestGroups(), err
}

func (d *DeadLetters) describeLetter(ctx context.Context, m *mqidem.DeadLetter, reveal bool) deadLetterJSON {
	r := &m.Reason
	l := deadLetterJSON{
		Hash: d.Hash(m), Why: r.Why, Consumer: r.Consumer, Tries: r.Tries, Redrives: r.Redrives, At: r.At.UTC(),
		Record: d.State(ctx, r), Source: m.Message.Source, Bytes: len(m.Message.Body),
	}
	if reveal {
		l.ID, l.Error, l.Body = m.Message.ID, r.Error, string(m.Message.Body[:min(mostLetter, len(m.Message.Body))])
	}
	return l
}

func redriveLetters(c *apiCall) (any, error) {
	return c.disposeLetters("redrive", func(d *DeadLetters, in *Disposal, choice *Choice) (Disposed, error) {
		return d.Redrive(c.r.Context(), choice, &mqidem.RedriveOptions{NotDone: in.NotDone, By: c.caller.Name})
	})
}

func discardLetters(c *apiCall) (any, error) {
	return c.disposeLetters("discard", func(d *DeadLetters, _ *Disposal, choice *Choice) (Disposed, error) {
		return d.Discard(c.r.Context(), choice)
	})
}

func (c *apiCall) disposeLetters(action string, do func(*DeadLetters, *Disposal, *Choice) (Disposed, error)) (any, error) {
	var in Disposal
	if err := c.decodeBody(&in); err != nil {
		return nil, err
	}
	if err := in.validate(len(in.Letters)); err != nil {
		return nil, err
	}
	if len(in.Places) > 0 || in.Topic != "" {
		return nil, badRequest("places and topic are of an outbox; dead letters have letters, why and consumer")
	}
	if slices.ContainsFunc(in.Letters, func(hash string) bool { return !IsHash(hash) }) {
		return nil, badRequest("name letters by hashes of 16 hex digits")
	}
	if err := checkWhy(in.Why); err != nil {
		return nil, err
	}
	name, d, err := c.findQueue()
	if err != nil {
		return nil, err
	}
	out := &disposedJSON{}
	err = c.doAudited(c.o.Audit, Entry{Action: action, Object: "dead letters " + name, Reason: in.Reason, Detail: in.Selection()}, func() (string, error) {
		did, err := do(d, &in, in.Choice())
		*out = did.toJSON()
		detail := out.summary()
		if in.All && len(did.Hashes) > 0 {
			detail += ": " + joinNames(did.Hashes)
		}
		return detail, err
	})
	return out, err
}
