package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// state is all that the page shows. Each event has the whole state, so a browser that has missed an
// event is up to date after the next one.
type state struct {
	Number  int          `json:"number"`
	Key     string       `json:"key"`
	Cents   int          `json:"cents"`
	Gateway gatewayState `json:"gateway"`
	Without sideState    `json:"without"`
	With    sideState    `json:"with"`
	Record  recordState  `json:"record"`
	Console string       `json:"console,omitempty"` // of the gateway, with a token
	Forms   []formState  `json:"forms"`             // null if the shop does not answer
	Examine examineState `json:"examine"`
}

type gatewayState struct {
	Up  bool `json:"up"`
	PID int  `json:"pid"`
}

type sideState struct {
	Payments []payment `json:"payments"` // that took effect; null if the shop does not say
	Presses  []press   `json:"presses"`
	Curl     string    `json:"curl"`
}

func (p *page) snapshot() state {
	b := p.currentBill()
	st := state{Number: b.number, Key: b.key, Cents: cents, Console: p.consoleURL()}
	st.Gateway.PID, st.Gateway.Up = p.stage.gateway.running()
	st.Forms, st.Examine = p.desk.formStates(p.ctx), p.examiner.snapshot()
	st.Without, st.With = p.sideSnapshot(b.without), p.sideSnapshot(b.with)
	if b.hasPresses() {
		st.Record = p.records.lookupState(p.ctx, b.key, st.With.Payments)
	}
	return st
}

func (p *page) sideSnapshot(s *side) sideState {
	presses, fields := s.snapshot()
	paid, err := p.listPayments(s)
	if err != nil {
		paid = nil
	}
	return sideState{Payments: paid, Presses: presses, Curl: curlCommand(p.stage.newClient(s.protected, shopper).base, s.key, s.request, fields)}
}

func (p *page) serveState(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(p.snapshot())
}

// serveEvents sends the state whenever it changes, until the browser or the demonstration ends.
func (p *page) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flow := http.NewResponseController(w)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var told []byte
	for {
		now, err := json.Marshal(p.snapshot())
		if err != nil {
			return
		}
		if !bytes.Equal(now, told) {
			told = now
			fmt.Fprintf(w, "data: %s\n\n", now)
			if flow.Flush() != nil {
				return
			}
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-p.ctx.Done():
			return
		}
	}
}
