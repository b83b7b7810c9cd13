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

var pressWays = []string{"pay", "lost", "failed", "killed"}

func (p *page) servePress(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&o); err != nil {
		http.Error(w, "the body is no JSON order, so nothing was done", http.StatusBadRequest)
		return
	}
	if !slices.Contains(pressWays, o.How) || o.Times < 1 || o.Times > 10 {
		http.Error(w, "how is "+strings.Join(pressWays, ", ")+", and times 1 to 10; nothing was done", http.StatusBadRequest)
		return
	}
	if p.unanswered.Load() > mostAtOnce {
		refuseRequest(w, r, http.StatusTooManyRequests, "notice.too-many")
		return
	}
	if o.How == "killed" {
		p.pressAndKill()
	} else {
		b := p.currentBill()
		one := pressPlan{orderKind: o.How, round: b.nextRound(), loseAnswer: o.How == "lost", fields: o.headerFields()}
		for range o.Times {
			for _, s := range []*side{b.without, b.with} {
				p.sendPress(s, one)
			}
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// headerFields returns what a press says to the shop beside the payment.
func (o *order) headerFields() (all []string) {
	if o.Slow {
		all = append(all, headWork, strconv.Itoa(slowMS))
	}
	if o.How == "failed" {
		all = append(all, headFail, "1")
	}
	return all
}

// nextRound returns the number of an order.
func (b *bill) nextRound() int { return int(b.rounds.Add(1)) }

// pressPlan is how a press is sent.
type pressPlan struct {
	orderKind  string
	round      int
	loseAnswer bool     // the answer
	fields     []string // pairs of a field's name and value
	// hidden are more of them, which the curl of the press does not have.
	hidden   []string
	answered chan<- struct{} // closed with the answer, if not nil
}

// pressAndKill kills the gateway after the shop has acted and before it has answered. That needs a
// payment with no press yet. The unprotected side has no gateway to kill: there the customer just
// gets no answer.
func (p *page) pressAndKill() {
	b := p.currentBill()
	if b.hasPresses() {
		b = p.newPayment()
	}
	one := pressPlan{orderKind: "killed", round: b.nextRound(), loseAnswer: true}
	p.sendPress(b.without, one)
	answered := make(chan struct{})
	one.loseAnswer, one.hidden, one.answered = false, []string{headHold, "1"}, answered
	p.sendPress(b.with, one)
	p.tasks.Go(func() {
		for {
			if paid, err := p.listPayments(b.with); err == nil && len(paid) > 0 {
				p.killGateway()
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

// sendPress makes a press and returns at once; the page shows the answer when it comes.
func (p *page) sendPress(s *side, one pressPlan) {
	got := s.addPress(press{How: one.orderKind, Round: one.round}, one.fields)
	p.unanswered.Add(1)
	p.tasks.Go(func() {
		defer p.unanswered.Add(-1)
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		a, err := p.stage.newClient(s.protected, shopper).post(ctx, "/payments", s.key, s.request, slices.Concat(one.fields, one.hidden)...)
		var dial *net.OpError
		switch {
		case err == nil && one.loseAnswer:
			got.State = "lost"
		case err == nil:
			got.setAnswer(a)
		case errors.As(err, &dial) && dial.Op == "dial":
			got.State = "away"
		default:
			got.State = "broken"
		}
		s.setPress(got)
		if one.answered != nil {
			close(one.answered)
		}
	})
}
