package servers

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// stripeDisk is the disk of a shop that treats keys as Stripe's documentation says: an answer is
// kept for 24 hours once the work has begun, with any status, and a key belongs to one route.
type stripeDisk struct {
	mu      sync.Mutex
	effects int64
	orders  int64
	answers map[string]finished // by caller and key
}

// finished is an answer with the route and the body that it belongs to.
type finished struct {
	answer
	route  string
	digest [sha256.Size]byte
	until  time.Time
}

func openStripe(string) (disk, error) { return &stripeDisk{answers: map[string]finished{}}, nil }

func (d *stripeDisk) total() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effects, nil
}

func (d *stripeDisk) Close() error { return nil }

func (d *stripeDisk) boot(p *process) (http.Handler, error) {
	s := &stripeShop{process: p, disk: d, running: map[string]bool{}}
	return routes(s.serve), nil
}

type stripeShop struct {
	process *process
	disk    *stripeDisk
	running map[string]bool // under the disk's lock
}

// stripeError is Stripe's error object.
type stripeError struct {
	Type    string `json:"type"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

func (e stripeError) answer(status int) answer {
	body, _ := json.Marshal(map[string]stripeError{"error": e}) // strings only: cannot fail
	return answer{status, http.Header{"Content-Type": {"application/json"}}, string(body) + "\n"}
}

func refusedLikeStripe(no *refused) answer {
	kind := "invalid_request_error"
	if no.status >= http.StatusInternalServerError {
		kind = "api_error"
	}
	return stripeError{Type: kind, Message: no.why}.answer(no.status)
}

func (s *stripeShop) serve(w http.ResponseWriter, r *http.Request) {
	o, no := read(r)
	if no == nil {
		no = o.early()
	}
	if no != nil {
		refusedLikeStripe(no).send(w, nil)
		return
	}
	if o.key == "" {
		s.run(o, nil).send(w, nil)
		return
	}
	echo := http.Header{"Idempotency-Key": {o.key}}
	switch first, begun := s.claim(o); {
	case begun:
		s.run(o, s.keep).send(w, echo)
	case first == nil:
		stripeError{"idempotency_error", "idempotency_key_in_use", "another request with this key runs"}.
			answer(http.StatusConflict).send(w, echo)
	case first.route != o.route || first.digest != o.digest:
		stripeError{Type: "idempotency_error", Message: "this key was used with other parameters"}.
			answer(http.StatusBadRequest).send(w, echo)
	default:
		echo.Set("Idempotent-Replayed", "true")
		first.send(w, echo)
	}
}

// claim begins the request, or returns the first answer, or nil while the first request runs.
func (s *stripeShop) claim(o *order) (first *finished, begun bool) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	name := o.caller + " " + o.key
	if s.running[name] {
		return nil, false
	}
	if a, is := s.disk.answers[name]; is && time.Now().Before(a.until) {
		return &a, false
	}
	s.running[name] = true
	return nil, true
}

// run works and returns the answer, whatever its status. keep, if not nil, is called in the step in
// which the order takes effect.
func (s *stripeShop) run(o *order, keep func(*order, answer)) answer {
	no := o.work()
	var a answer
	err := s.process.act(func() error {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		if no != nil {
			a = refusedLikeStripe(no)
		} else {
			s.disk.orders++
			s.disk.effects++
			a = receipt(o, s.disk.orders)
		}
		if keep != nil {
			keep(o, a)
		}
		return nil
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return a
}

// keep is called under the disk's lock.
func (s *stripeShop) keep(o *order, a answer) {
	name := o.caller + " " + o.key
	delete(s.running, name)
	s.disk.answers[name] = finished{a, o.route, o.digest, time.Now().Add(promised)}
}
