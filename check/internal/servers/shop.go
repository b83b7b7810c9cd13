package servers

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// slot is what the shop looks a key up by.
type slot struct{ caller, route, key string }

// stored is an answer with the request that it belongs to.
type stored struct {
	answer
	digest  [sha256.Size]byte
	at      time.Time
	replays int
}

// shopDisk is the disk of the shop with switches. Effects and answers are written in one step.
type shopDisk struct {
	faults faults

	mu      sync.Mutex
	effects int64
	orders  int64 // the number of the last receipt
	answers map[slot]stored
	recent  []slot // the slots of answers, the oldest first
}

// keep stores an answer. It is called under the lock.
func (d *shopDisk) keep(at slot, a stored) {
	d.answers[at] = a
	d.recent = append(d.recent, at)
	if most := d.faults.keepsAtMost; most > 0 && len(d.recent) > most {
		delete(d.answers, d.recent[0])
		d.recent = d.recent[1:]
	}
}

// replaying counts a replay of the answer at a slot, and forgets an answer that was replayed often
// enough. It is called under the lock.
func (d *shopDisk) replaying(at slot, a stored) {
	a.replays++
	d.answers[at] = a
	if most := d.faults.replaysAtMost; most > 0 && a.replays == most {
		delete(d.answers, at)
	}
}

func (d *shopDisk) boot(p *process) (http.Handler, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults.forgetsAtRestart {
		d.answers = map[slot]stored{}
	}
	s := &shop{process: p, disk: d, faults: d.faults, running: map[slot][sha256.Size]byte{}, early: make(chan struct{}, 1)}
	return routes(s.serve), nil
}

func (d *shopDisk) total() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effects, nil
}

func (d *shopDisk) Close() error { return nil }

// shop is a process of the shop. The disk's lock guards running too.
type shop struct {
	process *process
	disk    *shopDisk
	faults  faults
	running map[slot][sha256.Size]byte
	early   chan struct{} // of faults.answersEarly: a duplicate was answered
	coming  atomic.Int64  // requests whose key was not looked up yet
}

// awaitComing waits until the keys of all requests that have come were looked up, so that a fault
// that needs two requests at once shows on a slow machine too.
func (s *shop) awaitComing() {
	for end := time.Now().Add(10 * time.Second); s.coming.Load() > 0 && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	s.coming.Add(1)
	lookedUp := sync.OnceFunc(func() { s.coming.Add(-1) })
	defer lookedUp()
	if s.faults.takesFirstKey && len(r.Header["Idempotency-Key"]) > 1 {
		r.Header["Idempotency-Key"] = r.Header["Idempotency-Key"][:1]
	}
	o, no := read(r)
	switch {
	case no != nil && no.status == http.StatusUnauthorized:
		s.stranger(w, r, no)
		return
	case no != nil:
		refuse(w, no)
		return
	case o.key == "":
		refuse(w, &refused{status: http.StatusBadRequest, why: "send a key in Idempotency-Key"})
		return
	}
	if no := o.early(); no != nil {
		refuse(w, no)
		return
	}
	at := s.slotOf(o)
	if s.faults.comparesAmount {
		o.digest = sha256.Sum256(strconv.AppendInt(nil, o.amount, 10))
	}
	switch first, runs := s.claim(at, o.digest, lookedUp); {
	case first != nil:
		s.duplicate(w, o, first)
	case runs == nil:
		s.first(w, at, o)
	case *runs != o.digest && !s.faults.forgetsBody:
		refuse(w, mismatch)
	case s.faults.answersEarly:
		placeholder.send(w, nil)
		s.tellEarly()
	default:
		refuse(w, &refused{status: http.StatusConflict, why: "the first request with this key still runs", later: true})
	}
}

// placeholder is the answer of a shop that answers too early.
var placeholder = answer{http.StatusOK, http.Header{"Content-Type": {"application/json"}}, "{}\n"}

var mismatch = &refused{status: http.StatusUnprocessableEntity, why: "this key was sent with another body"}

func (s *shop) slotOf(o *order) slot {
	at := slot{o.caller, o.route, o.key}
	if s.faults.forgetsCaller {
		at.caller = ""
	}
	if s.faults.forgetsRoute {
		at.route = ""
	}
	at.key = s.faults.equated(at.key)
	return at
}

// equated returns the key that a shop takes in place of this one.
func (f *faults) equated(key string) string {
	if f.foldsCase {
		key = strings.ToLower(key)
	}
	if f.trimsKeys {
		key = strings.TrimRight(strings.Trim(key, `"`), " ")
	}
	if f.foldsAccents {
		key = strings.NewReplacer("é", "e", "\xe9", "e").Replace(key)
	}
	if f.cutsKeys {
		key = key[:min(len(key), 32)]
	}
	return key
}

// claim looks the key up and takes it if it is new. It returns the stored answer, or the digest of
// the request that runs, or neither. With a window, it does not look again before it takes the key.
func (s *shop) claim(at slot, digest [sha256.Size]byte, lookedUp func()) (first *stored, runs *[sha256.Size]byte) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	first, runs = s.look(at)
	lookedUp()
	if first != nil || runs != nil {
		if first != nil && first.digest == digest {
			s.disk.replaying(at, *first)
		}
		return first, runs
	}
	if s.faults.window > 0 {
		s.disk.mu.Unlock()
		<-time.After(s.faults.window)
		s.awaitComing()
		s.disk.mu.Lock()
	}
	s.running[at] = digest
	return nil, nil
}

// look is called under the disk's lock.
func (s *shop) look(at slot) (first *stored, runs *[sha256.Size]byte) {
	if digest, is := s.running[at]; is {
		return nil, &digest
	}
	kept := promised
	if s.faults.kept > 0 {
		kept = s.faults.kept
	}
	if a, is := s.disk.answers[at]; is && time.Since(a.at) < kept {
		return &a, nil
	}
	return nil, nil
}

// first does the work of an order.
func (s *shop) first(w http.ResponseWriter, at slot, o *order) {
	s.disk.mu.Lock()
	s.disk.orders++
	a := receipt(o, s.disk.orders)
	if s.faults.successFirst {
		s.disk.keep(at, stored{answer: a, digest: o.digest, at: time.Now()})
	}
	s.disk.mu.Unlock()

	select {
	case <-s.early: // it belongs to a burst of before
	default:
	}
	no := o.work()
	if s.faults.answersEarly {
		s.awaitComing()
		select {
		case <-s.early:
		case <-time.After(earlyWait):
		}
	}
	err := s.process.act(func() error {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		delete(s.running, at)
		if no == nil {
			s.disk.effects++
			s.disk.keep(at, stored{answer: a, digest: o.digest, at: time.Now()})
		}
		return nil
	})
	switch {
	case err != nil:
		panic(http.ErrAbortHandler)
	case no != nil:
		refuse(w, no)
	default:
		a.send(w, nil)
	}
}

// earlyWait is how long a shop that answers early waits for a duplicate to answer.
const earlyWait = 400 * time.Millisecond

// tellEarly ends the wait of a first request.
func (s *shop) tellEarly() {
	select {
	case s.early <- struct{}{}:
	default:
	}
}

// duplicate answers a request whose key has an answer.
func (s *shop) duplicate(w http.ResponseWriter, o *order, first *stored) {
	if first.digest != o.digest && !s.faults.forgetsBody {
		s.refuseShowing(w, mismatch, first)
		return
	}
	if s.faults.refusesDuplicates {
		refuse(w, &refused{status: http.StatusConflict, why: "this key was used before"})
		return
	}
	s.replay(w, first)
}

func (s *shop) replay(w http.ResponseWriter, first *stored) {
	a := first.answer
	a.header = a.header.Clone()
	delete(a.header, "Set-Cookie")
	if s.faults.losesHeader {
		a.header = http.Header{"Content-Type": a.header["Content-Type"]}
	}
	a.send(w, http.Header{"Idempotency-Replayed": {"true"}})
}

// stranger answers a request without credentials, or with unknown ones.
func (s *shop) stranger(w http.ResponseWriter, r *http.Request, no *refused) {
	var first *stored
	if k, bad := key(r.Header); bad == nil && (s.faults.leaks || s.faults.trustsStrangers) {
		first = s.ofAnyone(r.URL.Path[1:], k)
	}
	if first != nil && s.faults.trustsStrangers && r.Header.Get("Authorization") == "" {
		s.replay(w, first)
		return
	}
	s.refuseShowing(w, no, first)
}

// ofAnyone returns the answer to a caller's request with this key, or nil.
func (s *shop) ofAnyone(route, key string) *stored {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for _, caller := range callers {
		if first, _ := s.look(slot{caller, route, key}); first != nil {
			return first
		}
	}
	return nil
}

// refuseShowing refuses. A shop that leaks shows the first answer in the refusal.
func (s *shop) refuseShowing(w http.ResponseWriter, no *refused, first *stored) {
	if !s.faults.leaks || first == nil {
		refuse(w, no)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(no.status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"title": http.StatusText(no.status), "status": no.status, "detail": no.why,
		"original_response": json.RawMessage(first.body),
	})
}
