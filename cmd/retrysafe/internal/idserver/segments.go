package idserver

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
)

// segments has the segments of the tags that have given ids, and of those that are being tried. It
// does not keep others, since clients can ask for any number of tags that do not exist.
type segments struct {
	ranges idgen.Ranges

	mu     sync.RWMutex
	all    map[string]*entry
	absent map[string]time.Time // when the source had no such tag, kept for a second
	closed bool
}

type entry struct {
	*idgen.Segment
	known atomic.Bool // whether it has given an id
	users int         // users of an unknown tag, under the lock
}

// mostAbsent limits how many missing tags are remembered.
const mostAbsent = 1024

func newSegments(r idgen.Ranges) *segments {
	return &segments{ranges: r, all: map[string]*entry{}, absent: map[string]time.Time{}}
}

// withSource calls f with the source of a tag's ids.
func (s *segments) withSource(tag string, f func(source) error) error {
	s.mu.RLock()
	e := s.all[tag]
	s.mu.RUnlock()
	if e != nil && e.known.Load() {
		return f(e)
	}
	e, err := s.acquireEntry(tag)
	if err != nil {
		return err
	}
	err = f(e)
	s.releaseEntry(tag, e, err)
	return err
}

// acquireEntry is for a tag that is not known yet.
func (s *segments) acquireEntry(tag string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, idgen.ErrClosed
	}
	if time.Since(s.absent[tag]) < time.Second {
		return nil, idgen.ErrNoTag
	}
	e := s.all[tag]
	if e == nil {
		seg, err := idgen.NewSegment(s.ranges, tag, nil)
		if err != nil {
			return nil, err
		}
		e = &entry{Segment: seg}
		s.all[tag] = e
	}
	e.users++
	return e, nil
}

func (s *segments) releaseEntry(tag string, e *entry, err error) {
	s.mu.Lock()
	e.users--
	if err == nil {
		e.known.Store(true)
	}
	drop := !e.known.Load() && e.users == 0 && s.all[tag] == e
	if drop {
		delete(s.all, tag)
		if errors.Is(err, idgen.ErrNoTag) {
			if len(s.absent) >= mostAbsent {
				clear(s.absent)
			}
			s.absent[tag] = time.Now()
		}
	}
	s.mu.Unlock()
	if drop {
		_ = e.Close()
	}
}

// idsLeft returns how many ids of each known tag are left without another call of the source.
func (s *segments) idsLeft() map[string]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	left := map[string]int64{}
	for tag, e := range s.all {
		if e.known.Load() {
			left[tag] = e.Left()
		}
	}
	return left
}

func (s *segments) close() {
	s.mu.Lock()
	s.closed = true
	all := s.all
	s.all = map[string]*entry{}
	s.mu.Unlock()
	for _, e := range all {
		_ = e.Close()
	}
}
