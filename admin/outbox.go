package admin

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

// Outbox is what is needed of an [outbox.Outbox].
type Outbox interface {
	Stats(ctx context.Context) (outbox.Stats, error)
	Dead(ctx context.Context, after int64, limit int) ([]outbox.DeadMessage, error)
	Redrive(ctx context.Context, ids ...string) (int, error)
	Discard(ctx context.Context, ids ...string) (int, error)
}

// outboxStatsJSON counts the messages of an outbox.
type outboxStatsJSON struct {
	Name    string  `json:"name" doc:"name of the outbox"`
	Pending int     `json:"pending" doc:"committed and not published yet"`
	Waiting int     `json:"waiting" doc:"those of them that failed and are retried later"`
	Dead    int     `json:"dead" doc:"given up; they hold up their keys"`
	Oldest  float64 `json:"oldest_s" doc:"age of the oldest pending message, in seconds"`
	Error   string  `json:"error,omitempty" doc:"not empty if the database did not answer"`
}

// deadMessageJSON is a message that a relay has given up.
type deadMessageJSON struct {
	Place    int64     `json:"place" doc:"place in the order; the parameter after"`
	ID       string    `json:"id,omitempty" doc:"the message's id; only revealed"`
	Topic    string    `json:"topic" doc:"where it is to be published"`
	Key      string    `json:"key,omitempty" doc:"the key that it holds up; only revealed"`
	Attempts int       `json:"attempts" doc:"how often it was tried"`
	Added    time.Time `json:"added" doc:"when it was added"`
	Died     time.Time `json:"died" doc:"when it was given up"`
	Error    string    `json:"error,omitempty" doc:"last error of the publisher; only revealed"`
}

func listOutboxes(c *apiCall) (any, error) {
	out := []outboxStatsJSON{}
	for _, name := range slices.Sorted(maps.Keys(c.o.Outboxes)) {
		s, err := c.o.Outboxes[name].Stats(c.r.Context())
		one := outboxStatsJSON{Name: name, Pending: s.Pending, Waiting: s.Waiting, Dead: s.Dead, Oldest: toSeconds(s.Oldest)}
		if err != nil {
			c.logFailure("/outboxes/"+name, err)
			one.Error = "the database does not answer"
		}
		out = append(out, one)
	}
	return out, nil
}

func (c *apiCall) findOutbox() (string, Outbox, error) {
	name := c.r.PathValue("name")
	o := c.o.Outboxes[name]
	if o == nil {
		return name, nil, newProblem(http.StatusNotFound, "not-found", "there is no outbox of this name")
	}
	return name, o, nil
}

func listDead(c *apiCall) (any, error) {
	dead, err := c.listDead()
	return shownDead(dead), err
}

func revealDead(c *apiCall) (any, error) {
	dead, err := c.listDead()
	if err != nil {
		return nil, err
	}
	out := shownDead(dead)
	err = c.doReveal(c.o.Audit, "outbox "+c.r.PathValue("name"), func() error {
		for i := range dead {
			out[i].ID, out[i].Key, out[i].Error = dead[i].ID, dead[i].Key, dead[i].Error
		}
		return nil
	})
	return out, err
}

// listDead returns the dead messages that the query selects.
func (c *apiCall) listDead() ([]outbox.DeadMessage, error) {
	_, o, err := c.findOutbox()
	if err != nil {
		return nil, err
	}
	after, err := c.numberParameter("after", 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	limit, err := c.pageLimit()
	if err != nil {
		return nil, err
	}
	return o.Dead(c.r.Context(), int64(after), limit)
}

// shownDead returns what everybody who may view sees of messages.
func shownDead(dead []outbox.DeadMessage) []deadMessageJSON {
	out := make([]deadMessageJSON, len(dead))
	for i := range dead {
		m := &dead[i]
		out[i] = deadMessageJSON{Place: m.Place, Topic: m.Topic, Attempts: m.Attempts, Added: m.Added.UTC(), Died: m.Died.UTC()}
	}
	return out
}

func redriveOutbox(c *apiCall) (any, error) { return c.disposeMessages("redrive", Outbox.Redrive) }
func discardOutbox(c *apiCall) (any, error) { return c.disposeMessages("discard", Outbox.Discard) }

func (c *apiCall) disposeMessages(action string, do func(Outbox, context.Context, ...string) (int, error)) (any, error) {
	var in Disposal
	if err := c.decodeBody(&in); err != nil {
		return nil, err
	}
	if err := in.validate(len(in.Places)); err != nil {
		return nil, err
	}
	if len(in.Letters) > 0 || in.Why != "" || in.Consumer != "" || in.NotDone {
		return nil, badRequest("letters, why, consumer and not_done are of dead letters; an outbox has places and topic")
	}
	name, o, err := c.findOutbox()
	if err != nil {
		return nil, err
	}
	dead, err := SelectMessages(c.r.Context(), o, &in)
	if err != nil {
		return nil, err
	}
	out := &disposedJSON{More: dead.More}
	e := Entry{Action: action, Object: "outbox " + name, Reason: in.Reason, Detail: dead.Describe(&in)}
	err = c.doAudited(c.o.Audit, e, func() (detail string, err error) {
		out.Done, err = dead.dispose(c.r.Context(), o, do)
		return out.summary(), err
	})
	return out, err
}

// Messages are dead messages of an outbox that a [Disposal] selects.
type Messages struct {
	ids []string
	// Places are their places, in order.
	Places []int64
	// More means that the disposal's count left messages that it selects.
	More bool
}

// SelectMessages returns the dead messages that in names, or all that its rule selects, at most
// in.Count.
func SelectMessages(ctx context.Context, o Outbox, in *Disposal) (*Messages, error) {
	out := new(Messages)
	wants := func(m *outbox.DeadMessage) bool {
		return in.All && (in.Topic == "" || m.Topic == in.Topic) && (in.Until == nil || !m.Died.After(*in.Until)) || slices.Contains(in.Places, m.Place)
	}
	err := EachDead(ctx, o, func(m *outbox.DeadMessage) bool {
		switch {
		case !wants(m):
		case in.All && len(out.ids) == in.Count:
			out.More = true
		default:
			out.ids, out.Places = append(out.ids, m.ID), append(out.Places, m.Place)
		}
		return !out.More && (in.All || len(out.ids) < len(in.Places))
	})
	return out, err
}

// Describe says for the audit log which messages in has selected.
func (m *Messages) Describe(in *Disposal) string {
	text := fmt.Sprintf("%d messages: %s", len(m.ids), in.Selection())
	if in.All && len(m.Places) > 0 {
		text += ": " + joinNames(placeNames(m.Places))
	}
	return text
}

// Redrive lets a relay publish the messages again. It returns how many of them were still dead,
// also with an error.
func (m *Messages) Redrive(ctx context.Context, o Outbox) (done int, err error) {
	return m.dispose(ctx, o, Outbox.Redrive)
}

// Discard removes the messages. It returns how many of them were still dead, also with an error.
func (m *Messages) Discard(ctx context.Context, o Outbox) (done int, err error) {
	return m.dispose(ctx, o, Outbox.Discard)
}

func (m *Messages) dispose(ctx context.Context, o Outbox, do func(Outbox, context.Context, ...string) (int, error)) (done int, err error) {
	for batch := range slices.Chunk(m.ids, 1000) {
		n, err := do(o, ctx, batch...)
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// EachDead calls see with the dead messages of an outbox, in their order, until see returns false.
func EachDead(ctx context.Context, o Outbox, see func(*outbox.DeadMessage) bool) error {
	const page = 1000
	for after := int64(0); ; {
		dead, err := o.Dead(ctx, after, page)
		if err != nil {
			return err
		}
		for i := range dead {
			if after = dead[i].Place; !see(&dead[i]) {
				return nil
			}
		}
		if len(dead) < page {
			return nil
		}
	}
}

func countDead(c *apiCall) (any, error) {
	_, o, err := c.findOutbox()
	if err != nil {
		return nil, err
	}
	out := &deadCountsJSON{Groups: []deadCountJSON{}}
	err = EachDead(c.r.Context(), o, func(m *outbox.DeadMessage) bool { return out.countMessage(deadCountJSON{Topic: m.Topic}, m.Died) })
	return out.largestGroups(), err
}
