package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// cents is the amount of every payment.
const cents = 4200

// bill is one payment that a person means to make once, however often they press. Each press sends
// a request on both sides, each with its one key.
type bill struct {
	number        int
	key           string
	without, with *side
	rounds        atomic.Int64 // orders so far
}

func newBill(number int, key string) *bill {
	return &bill{number: number, key: key, without: newSide(number, key, false), with: newSide(number, key, true)}
}

// side is the path of a payment to the shop: direct, or through the gateway.
type side struct {
	key       string
	protected bool
	request   request

	mu      sync.Mutex
	presses []press
	fields  []string // of the last press, for its curl
}

func newSide(number int, key string, protected bool) *side {
	return &side{key: key, protected: protected, request: request{Scene: sceneName(fmt.Sprintf("page-%d", number), protected), Cents: cents}}
}

// press is one press of the button, and its outcome as the customer sees it.
type press struct {
	N int `json:"n"`
	// How and Round are of its order. All presses of one order have the same Round.
	How   string `json:"how"`
	Round int    `json:"round"`
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

// addPress notes a press that is sent with these fields, and returns it with its number.
func (s *side) addPress(p press, fields []string) press {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.N, p.State = len(s.presses)+1, "sent"
	s.fields = fields
	s.presses = append(s.presses, p)
	return p
}

func (s *side) setPress(p press) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.presses[p.N-1] = p
}

func (s *side) snapshot() (presses []press, fields []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.presses), s.fields
}

func (b *bill) hasPresses() bool {
	presses, _ := b.with.snapshot()
	return len(presses) > 0
}

// setAnswer sets the fields from an answer.
func (p *press) setAnswer(a answer) {
	p.State, p.Status, p.Replayed, p.RetryAfter = "answered", a.status, a.replayed, a.retryAfter
	var body struct {
		Payment int64
		Code    string
	}
	_ = json.Unmarshal([]byte(a.body), &body) // an answer in another format has neither
	p.Payment, p.Code = body.Payment, body.Code
}
