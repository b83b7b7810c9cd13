package demo

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	slowMS = 3000
	// mostAtOnce keeps a key that is held down from filling memory.
	mostAtOnce = 200
)

// order is a request of the page.
type order struct {
	// How is pay, lost (the answer does not arrive), failed (the shop answers 500 after it has
	// charged) or killed (the gateway dies meanwhile).
	How   string `json:"how"`
	Times int    `json:"times"`
	Slow  bool   `json:"slow"`
}

var ways = []string{"pay", "lost", "failed", "killed"}

func (p *page) press(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&o); err != nil {
		http.Error(w, "the body is no JSON order, so nothing was done", http.StatusBadRequest)
		return
	}
	if !slices.Contains(ways, o.How) || o.Times < 1 || o.Times > 10 {
		http.Error(w, "how is "+strings.Join(ways, ", ")+", and times 1 to 10; nothing was done", http.StatusBadRequest)
		return
	}
	if p.waiting.Load() > mostAtOnce {
		refuse(w, r, http.StatusTooManyRequests, "notice.too-many")
		return
	}
	if o.How == "killed" {
		p.pressAndKill()
	} else {
		b := p.bill()
		one := sending{how: o.How, round: b.round(), lose: o.How == "lost", fields: o.fields()}
		for range o.Times {
			for _, s := range []*side{b.without, b.with} {
				p.send(s, one)
			}
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// fields returns what a press says to the shop beside the payment.
func (o *order) fields() (all []string) {
	if o.Slow {
		all = append(all, headWork, strconv.Itoa(slowMS))
	}
	if o.How == "failed" {
		all = append(all, headFail, "1")
	}
	return all
}

// round returns the number of an order.
func (b *bill) round() int { return int(b.rounds.Add(1)) }

// sending is how a press is sent.
type sending struct {
	how    string
	round  int
	lose   bool     // the answer
	fields []string // pairs of a field's name and value
	// hidden are more of them, which the curl of the press does not have.
	hidden []string
	ended  chan<- struct{} // closed with the answer, if not nil
}

// pressAndKill kills the gateway after the shop has acted and before it has answered. That needs a
// payment with no press yet. The unprotected side has no gateway to kill: there the customer just
// gets no answer.
func (p *page) pressAndKill() {
	b := p.bill()
	if b.pressed() {
		b = p.renew()
	}
	one := sending{how: "killed", round: b.round(), lose: true}
	p.send(b.without, one)
	answered := make(chan struct{})
	one.lose, one.hidden, one.ended = false, []string{headHold, "1"}, answered
	p.send(b.with, one)
	p.all.Go(func() {
		for {
			if paid, err := p.paid(b.with); err == nil && len(paid) > 0 {
				p.kill()
				return
			}
			select {
			case <-answered: // there was nothing to kill
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
}

// send makes a press and returns at once; the page shows the answer when it comes.
func (p *page) send(s *side, one sending) {
	got := s.begin(press{How: one.how, Round: one.round}, one.fields)
	p.waiting.Add(1)
	p.all.Go(func() {
		defer p.waiting.Add(-1)
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		a, err := p.stage.client(s.protected, shopper).post(ctx, "/payments", s.key, s.request, slices.Concat(one.fields, one.hidden)...)
		var dial *net.OpError
		switch {
		case err == nil && one.lose:
			got.State = "lost"
		case err == nil:
			got.read(a)
		case errors.As(err, &dial) && dial.Op == "dial":
			got.State = "away"
		default:
			got.State = "broken"
		}
		s.end(got)
		if one.ended != nil {
			close(one.ended)
		}
	})
}
