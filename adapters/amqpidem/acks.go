package amqpidem

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/retrysafe/retrysafe/mqidem"
)

// acks sends the acks and nacks of one channel. Acks that are ready at one moment go out together.
// The part of them below which everything is settled is one ack with multiple set, which acks every
// outstanding tag up to its own. So that ack must never have an open tag below it. The others go
// out one by one: a slow handler delays no ack but its own. The methods may be called concurrently.
type acks struct {
	link *link

	sendMu sync.Mutex // held while something is sent, so that it arrives in the order of the plans

	mu        sync.Mutex // guards the fields below, and is never held while something is sent
	nextGroup *ackGroup  // gathers acks
	tags      tagWindow
}

// ackGroup is acks that are sent together.
type ackGroup struct {
	tags []uint64
	sent chan struct{} // closed when they were sent, or err says why not
	err  error
}

func newAcks(l *link) *acks { return &acks{link: l, nextGroup: newAckGroup()} }

func newAckGroup() *ackGroup { return &ackGroup{sent: make(chan struct{})} }

// addTag adds the tag of a delivery. Tags of a channel arrive in ascending order.
func (a *acks) addTag(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tags.add(tag)
}

// ack returns when the ack was sent.
func (a *acks) ack(tag uint64) error {
	a.mu.Lock()
	g := a.nextGroup
	g.tags = append(g.tags, tag)
	first := len(g.tags) == 1
	a.mu.Unlock()
	if !first {
		<-g.sent
		return g.err
	}
	runtime.Gosched() // handlers that are about to end add their acks
	a.sendMu.Lock()   // more are added while an earlier group is sent
	defer a.sendMu.Unlock()
	defer close(g.sent)
	a.mu.Lock()
	a.nextGroup = newAckGroup()
	p := a.tags.markSettled(g.tags)
	a.mu.Unlock()
	g.err = a.send(p)
	return g.err
}

// send sends the acks of a plan. After an error the link is severed: the tags count as settled
// here, and the broker still has the messages.
func (a *acks) send(p ackPlan) error {
	err := a.link.limitTime(writeTime, func() error {
		return a.link.writeAtOnce(func() error {
			if p.upTo != 0 {
				if err := a.link.channel.Ack(p.upTo, p.multiple); err != nil {
					return err
				}
			}
			for _, tag := range p.single {
				if err := a.link.channel.Ack(tag, false); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		a.link.sever()
		return fmt.Errorf("amqpidem: the ack was not sent: %w: %w", mqidem.ErrStale, err)
	}
	return nil
}

// requeue makes the broker redeliver a message.
func (a *acks) requeue(tag uint64) {
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	a.mu.Lock()
	a.tags.markSettled([]uint64{tag}) // an ack of later tags may pass it
	a.mu.Unlock()
	if a.link.limitTime(writeTime, func() error { return a.link.channel.Nack(tag, false, true) }) != nil {
		a.link.sever()
	}
}

// tagWindow has the tags of a channel from the first open one on.
type tagWindow struct {
	held []heldTag // ascending
	open int
}

type heldTag struct {
	tag     uint64
	settled bool
}

func (w *tagWindow) add(tag uint64) {
	w.held = append(w.held, heldTag{tag: tag})
	w.open++
}

// ackPlan is how to ack some tags: upTo, with everything below it if multiple is set, and single
// ones.
type ackPlan struct {
	upTo     uint64 // zero: none
	multiple bool
	single   []uint64
}

// markSettled marks open tags as settled, and returns how to ack them.
func (w *tagWindow) markSettled(tags []uint64) (p ackPlan) {
	slices.Sort(tags)
	for _, tag := range tags {
		at, ok := slices.BinarySearchFunc(w.held, tag, func(h heldTag, tag uint64) int { return cmp.Compare(h.tag, tag) })
		if ok && !w.held[at].settled {
			w.held[at].settled = true
			w.open--
		}
	}
	firstOpen := slices.IndexFunc(w.held, func(h heldTag) bool { return !h.settled })
	below := len(tags) // how many of them are below every open tag
	if firstOpen >= 0 {
		below, _ = slices.BinarySearch(tags, w.held[firstOpen].tag)
	}
	if below > 0 {
		p.upTo, p.multiple = tags[below-1], below > 1
	}
	p.single = tags[below:]
	w.dropSettled(firstOpen)
	return p
}

// dropSettled drops settled tags, those before the first open one always, the others when they are
// the larger part.
func (w *tagWindow) dropSettled(firstOpen int) {
	switch {
	case firstOpen < 0:
		w.held = w.held[:0]
	case firstOpen > 0 || len(w.held) > 2*w.open+64:
		w.held = slices.DeleteFunc(w.held, func(h heldTag) bool { return h.settled })
	}
}
