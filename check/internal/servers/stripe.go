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
	storedAnswer
	route  string
	digest [sha256.Size]byte
	until  time.Time
}

func openStripe(string) (disk, error) { return &stripeDisk{answers: map[string]finished{}}, nil }

func (d *stripeDisk) countEffects() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effects, nil
}

func (d *stripeDisk) Close() error { return nil }

func (d *stripeDisk) newHandler(p *process) (http.Handler, error) {
	s := &stripeShop{process: p, disk: d, running: map[string]bool{}}
	return newRoutes(s.serveOrder), nil
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

func (e stripeError) toAnswer(status int) storedAnswer {
	body, _ := json.Marshal(map[string]stripeError{"error": e}) // strings only: cannot fail
	return storedAnswer{status, http.Header{"Content-Type": {"application/json"}}, string(body) + "\n"}
}

func refusedLikeStripe(no *refusal) storedAnswer {
	kind := "invalid_request_error"
	if no.status >= http.StatusInternalServerError {
		kind = "api_error"
	}
	return stripeError{Type: kind, Message: no.why}.toAnswer(no.status)
}

func (s *stripeShop) serveOrder(w http.ResponseWriter, r *http.Request) {
	o, no := readOrder(r)
	if no == nil {
		no = o.earlyRefusal()
	}
	if no != nil {
		refusedLikeStripe(no).writeTo(w, nil)
		return
	}
	if o.key == "" {
		s.runOrder(o, nil).writeTo(w, nil)
		return
	}
	echo := http.Header{"Idempotency-Key": {o.key}}
	switch first, begun := s.claimKey(o); {
	case begun:
		s.runOrder(o, s.storeAnswer).writeTo(w, echo)
	case first == nil:
		stripeError{"idempotency_error", "idempotency_key_in_use", "another request with this key runs"}.
			toAnswer(http.StatusConflict).writeTo(w, echo)
	case first.route != o.route || first.digest != o.digest:
		stripeError{Type: "idempotency_error", Message: "this key was used with other parameters"}.
			toAnswer(http.StatusBadRequest).writeTo(w, echo)
	default:
		echo.Set("Idempotent-Replayed", "true")
		first.writeTo(w, echo)
	}
}

// claimKey begins the request, or returns the first answer, or nil while the first request runs.
func (s *stripeShop) claimKey(o *order) (first *finished, begun bool) {
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

// runOrder works and returns the answer, whatever its status. keep, if not nil, is called in the
// step in which the order takes effect.
func (s *stripeShop) runOrder(o *order, keep func(*order, storedAnswer)) storedAnswer {
	no := o.doWork()
	var a storedAnswer
	err := s.process.runUnlessKilled(func() error {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		if no != nil {
			a = refusedLikeStripe(no)
		} else {
			s.disk.orders++
			s.disk.effects++
			a = receiptFor(o, s.disk.orders)
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

// storeAnswer is called under the disk's lock.
func (s *stripeShop) storeAnswer(o *order, a storedAnswer) {
	name := o.caller + " " + o.key
	delete(s.running, name)
	s.disk.answers[name] = finished{a, o.route, o.digest, time.Now().Add(promised)}
}
