package demo

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	slowMS = 3000
	// deadMS keeps the shop busy until its caller is certainly dead.
	deadMS = 30000
	// mostAtOnce keeps a key that is held down from filling memory.
	mostAtOnce = 200
)

// order is a request of the page.
type order struct {
	// How is pay, lost (the answer does not arrive) or killed (the gateway dies meanwhile).
	How   string `json:"how"`
	Times int    `json:"times"`
	Slow  bool   `json:"slow"`
}

func (p *page) press(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&o); err != nil {
		http.Error(w, "the body is no JSON order, so nothing was done", http.StatusBadRequest)
		return
	}
	if o.How != "pay" && o.How != "lost" && o.How != "killed" || o.Times < 1 || o.Times > 10 {
		http.Error(w, "how is pay, lost or killed, and times 1 to 10; nothing was done", http.StatusBadRequest)
		return
	}
	if p.waiting.Load() > mostAtOnce {
		http.Error(w, "too many presses wait for their answers, so nothing was done: press again in a few seconds", http.StatusTooManyRequests)
		return
	}
	if o.How == "killed" {
		p.pressAndKill()
	} else {
		b := p.bill()
		for range o.Times {
			for _, s := range []*side{b.without, b.with} {
				p.send(s, o.How == "lost", o.Slow, workMS(o.Slow), nil)
			}
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func workMS(slow bool) int {
	if slow {
		return slowMS
	}
	return 0
}

// pressAndKill kills the gateway after the shop has acted and before it has answered. That needs a
// payment with no press yet. The unprotected side has no gateway to kill: there the customer just
// gets no answer.
func (p *page) pressAndKill() {
	b := p.bill()
	if b.pressed() {
		b = p.renew()
	}
	p.send(b.without, true, false, 0, nil)
	answered := make(chan struct{})
	p.send(b.with, false, false, deadMS, answered)
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

// send makes a press and returns at once; the page shows the answer when it comes. ended, if not
// nil, is closed then.
func (p *page) send(s *side, lose, slow bool, workMS int, ended chan<- struct{}) {
	n := s.begin(slow)
	p.waiting.Add(1)
	p.all.Go(func() {
		defer p.waiting.Add(-1)
		got := press{N: n}
		ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
		defer cancel()
		a, err := p.stage.client(s.protected, shopper).post(ctx, "/payments", s.key, s.request, headWork, strconv.Itoa(workMS))
		var dial *net.OpError
		switch {
		case err == nil && lose:
			got.State = "lost"
		case err == nil:
			got.read(a)
		case errors.As(err, &dial) && dial.Op == "dial":
			got.State = "away"
		default:
			got.State = "broken"
		}
		s.end(got)
		if ended != nil {
			close(ended)
		}
	})
}
