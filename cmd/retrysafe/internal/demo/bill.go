package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// cents is the amount of every payment.
const cents = 4200

// bill is one payment that a person means to make once, however often they press. Each press sends
// a request on both sides, each with its one key.
type bill struct {
	number        int
	key           string
	without, with *side
}

func newBill(number int, key string) *bill {
	return &bill{number, key, newSide(number, key, false), newSide(number, key, true)}
}

// side is the path of a payment to the shop: direct, or through the gateway.
type side struct {
	key       string
	protected bool
	request   request

	mu      sync.Mutex
	presses []press
	slow    bool // of the last press
}

func newSide(number int, key string, protected bool) *side {
	return &side{key: key, protected: protected, request: request{Scene: sceneName(fmt.Sprintf("page-%d", number), protected), Cents: cents}}
}

// press is one press of the button, and its outcome as the customer sees it.
type press struct {
	N int `json:"n"`
	// State is sent, answered, lost (the answer got lost), away (the server is down) or broken (the
	// connection broke).
	State string `json:"state"`
	// Status, Payment, Code and Replayed are from an answer.
	Status     int    `json:"status,omitempty"`
	Payment    int64  `json:"payment,omitempty"`
	Code       string `json:"code,omitempty"`
	Replayed   bool   `json:"replayed,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

func (s *side) begin(slow bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = slow
	s.presses = append(s.presses, press{N: len(s.presses) + 1, State: "sent"})
	return len(s.presses)
}

func (s *side) end(p press) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.presses[p.N-1] = p
}

func (s *side) seen() (presses []press, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.presses), s.slow
}

func (b *bill) pressed() bool {
	presses, _ := b.with.seen()
	return len(presses) > 0
}

// read sets the fields from an answer.
func (p *press) read(a answer) {
	p.State, p.Status, p.Replayed, p.RetryAfter = "answered", a.status, a.replayed, a.retryAfter
	var body struct {
		Payment int64
		Code    string
	}
	_ = json.Unmarshal([]byte(a.body), &body) // an answer in another format has neither
	p.Payment, p.Code = body.Payment, body.Code
}
