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
	storedAnswer
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

// storeAnswer stores an answer. It is called under the lock.
func (d *shopDisk) storeAnswer(at slot, a stored) {
	d.answers[at] = a
	d.recent = append(d.recent, at)
	if most := d.faults.keepsAtMost; most > 0 && len(d.recent) > most {
		delete(d.answers, d.recent[0])
		d.recent = d.recent[1:]
	}
}

// countReplay counts a replay of the answer at a slot, and forgets an answer that was replayed
// often enough. It is called under the lock.
func (d *shopDisk) countReplay(at slot, a stored) {
	a.replays++
	d.answers[at] = a
	if most := d.faults.replaysAtMost; most > 0 && a.replays == most {
		delete(d.answers, at)
	}
}

func (d *shopDisk) newHandler(p *process) (http.Handler, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults.forgetsAtRestart {
		d.answers = map[slot]stored{}
	}
	s := &shop{process: p, disk: d, faults: d.faults, running: map[slot][sha256.Size]byte{}, early: make(chan struct{}, 1)}
	return newRoutes(s.serveOrder), nil
}

func (d *shopDisk) countEffects() (int64, error) {
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

func (s *shop) serveOrder(w http.ResponseWriter, r *http.Request) {
	s.coming.Add(1)
	lookedUp := sync.OnceFunc(func() { s.coming.Add(-1) })
	defer lookedUp()
	if s.faults.takesFirstKey && len(r.Header["Idempotency-Key"]) > 1 {
		r.Header["Idempotency-Key"] = r.Header["Idempotency-Key"][:1]
	}
	o, no := readOrder(r)
	switch {
	case no != nil && no.status == http.StatusUnauthorized:
		s.serveStranger(w, r, no)
		return
	case no != nil:
		writeRefusal(w, no)
		return
	case o.key == "":
		writeRefusal(w, &refusal{status: http.StatusBadRequest, why: "send a key in Idempotency-Key"})
		return
	}
	if no := o.earlyRefusal(); no != nil {
		writeRefusal(w, no)
		return
	}
	at := s.slotOf(o)
	if s.faults.comparesAmount {
		o.digest = sha256.Sum256(strconv.AppendInt(nil, o.amount, 10))
	}
	switch first, runs := s.claimKey(at, o.digest, lookedUp); {
	case first != nil:
		s.serveDuplicate(w, o, first)
	case runs == nil:
		s.serveFirst(w, at, o)
	case *runs != o.digest && !s.faults.forgetsBody:
		writeRefusal(w, mismatch)
	case s.faults.answersEarly:
		placeholder.writeTo(w, nil)
		s.tellEarly()
	default:
		writeRefusal(w, &refusal{status: http.StatusConflict, why: "the first request with this key still runs", later: true})
	}
}

// placeholder is the answer of a shop that answers too early.
var placeholder = storedAnswer{http.StatusOK, http.Header{"Content-Type": {"application/json"}}, "{}\n"}

var mismatch = &refusal{status: http.StatusUnprocessableEntity, why: "this key was sent with another body"}

func (s *shop) slotOf(o *order) slot {
	at := slot{o.caller, o.route, o.key}
	if s.faults.forgetsCaller {
		at.caller = ""
	}
	if s.faults.forgetsRoute {
		at.route = ""
	}
	at.key = s.faults.equatedKey(at.key)
	return at
}

// equatedKey returns the key that a shop takes in place of this one.
func (f *faults) equatedKey(key string) string {
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

// claimKey looks the key up and takes it if it is new. It returns the stored answer, or the digest
// of the request that runs, or neither. With a window, it does not look again before it takes the
// key.
func (s *shop) claimKey(at slot, digest [sha256.Size]byte, lookedUp func()) (first *stored, runs *[sha256.Size]byte) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	first, runs = s.lookupKey(at)
	lookedUp()
	if first != nil || runs != nil {
		if first != nil && first.digest == digest {
			s.disk.countReplay(at, *first)
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

// lookupKey is called under the disk's lock.
func (s *shop) lookupKey(at slot) (first *stored, runs *[sha256.Size]byte) {
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

// serveFirst does the work of an order.
func (s *shop) serveFirst(w http.ResponseWriter, at slot, o *order) {
	s.disk.mu.Lock()
	s.disk.orders++
	a := receiptFor(o, s.disk.orders)
	if s.faults.successFirst {
		s.disk.storeAnswer(at, stored{storedAnswer: a, digest: o.digest, at: time.Now()})
	}
	s.disk.mu.Unlock()

	select {
	case <-s.early: // it belongs to a burst of before
	default:
	}
	no := o.doWork()
	if s.faults.answersEarly {
		s.awaitComing()
		select {
		case <-s.early:
		case <-time.After(earlyWait):
		}
	}
	err := s.process.runUnlessKilled(func() error {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		delete(s.running, at)
		if no == nil {
			s.disk.effects++
			s.disk.storeAnswer(at, stored{storedAnswer: a, digest: o.digest, at: time.Now()})
		}
		return nil
	})
	switch {
	case err != nil:
		panic(http.ErrAbortHandler)
	case no != nil:
		writeRefusal(w, no)
	default:
		a.writeTo(w, nil)
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

// serveDuplicate answers a request whose key has an answer.
func (s *shop) serveDuplicate(w http.ResponseWriter, o *order, first *stored) {
	if first.digest != o.digest && !s.faults.forgetsBody {
		s.refuseShowing(w, mismatch, first)
		return
	}
	if s.faults.refusesDuplicates {
		writeRefusal(w, &refusal{status: http.StatusConflict, why: "this key was used before"})
		return
	}
	s.writeReplay(w, first)
}

func (s *shop) writeReplay(w http.ResponseWriter, first *stored) {
	a := first.storedAnswer
	a.header = a.header.Clone()
	delete(a.header, "Set-Cookie")
	if s.faults.losesHeader {
		a.header = http.Header{"Content-Type": a.header["Content-Type"]}
	}
	a.writeTo(w, http.Header{"Idempotency-Replayed": {"true"}})
}

// serveStranger answers a request without credentials, or with unknown ones.
func (s *shop) serveStranger(w http.ResponseWriter, r *http.Request, no *refusal) {
	var first *stored
	if k, bad := readKey(r.Header); bad == nil && (s.faults.leaks || s.faults.trustsStrangers) {
		first = s.ofAnyone(r.URL.Path[1:], k)
	}
	if first != nil && s.faults.trustsStrangers && r.Header.Get("Authorization") == "" {
		s.writeReplay(w, first)
		return
	}
	s.refuseShowing(w, no, first)
}

// ofAnyone returns the answer to a caller's request with this key, or nil.
func (s *shop) ofAnyone(route, key string) *stored {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for _, caller := range callers {
		if first, _ := s.lookupKey(slot{caller, route, key}); first != nil {
			return first
		}
	}
	return nil
}

// refuseShowing refuses. A shop that leaks shows the first answer in the refusal.
func (s *shop) refuseShowing(w http.ResponseWriter, no *refusal, first *stored) {
	if !s.faults.leaks || first == nil {
		writeRefusal(w, no)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(no.status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"title": http.StatusText(no.status), "status": no.status, "detail": no.why,
		"original_response": json.RawMessage(first.body),
	})
}
