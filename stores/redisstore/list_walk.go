package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// walk has the next names of a list in progress, so that its pages do not scan the server again.
// Another process, or a late page, scans again. The order is by name, and each page begins after
// the last name of the page before. A walk is not changed after it was made.
type walk struct {
	of    storeapi.ListRequest
	after string
	names []string // those after after, in order
	more  bool     // the server may have more after end
	end   string
	// indexed: the names are those of the index of unfinished records.
	fromIndex bool
}

const (
	// walkTime is how long the names of a list are kept between two pages.
	walkTime = time.Minute
	// walkNames is how many names a walk has at most. A typical name takes some 100 bytes.
	walkNames = 1 << 16
	// walksKept is how many walks are kept at most. Of more lists at once, some scan again.
	walksKept = 4
)

// walks are the walks of lists between two pages.
type walks struct {
	mu   sync.Mutex
	kept []*keptWalk
}

type keptWalk struct {
	*walk
	used  time.Time
	timer *time.Timer
}

// namesAfter returns the names after a name.
func (w *walk) namesAfter(after string) []string {
	at, found := slices.BinarySearch(w.names, after)
	if found {
		at++
	}
	return w.names[at:]
}

// covers reports whether the walk has what comes after a name.
func (w *walk) covers(after string) bool {
	return after >= w.after && (!w.more || after < w.end)
}

// endAt notes that the walk does not know what comes after a name.
func (w *walk) endAt(name string) {
	if !w.more || name < w.end {
		w.more, w.end = true, name
	}
}

// trim sorts the names, and drops those that are too many or after the walk's end.
func (w *walk) trim() {
	slices.Sort(w.names)
	w.names = slices.Compact(w.names) // SCAN may return a name twice
	if len(w.names) > walkNames {
		w.endAt(w.names[walkNames-1])
	}
	if w.more {
		last, found := slices.BinarySearch(w.names, w.end)
		if found {
			last++
		}
		clear(w.names[last:])
		w.names = w.names[:last]
	}
}

// walkFrom returns a walk with the names after a name. The first page of a list scans again.
func (s *Store) walkFrom(ctx context.Context, nodes redisclient.Nodes, req *storeapi.ListRequest, after string) (*walk, error) {
	indexed := s.canUseIndex(req)
	of := *req
	of.After, of.Limit, of.State, of.InDoubt, of.Progress = "", 0, 0, false, false
	if after != "" {
		if w := s.walks.find(&of, after, indexed); w != nil {
			return w, nil
		}
	}
	w := &walk{of: of, after: after}
	if indexed {
		complete, err := s.readIndex(ctx, w)
		if err != nil {
			return nil, err
		}
		w.fromIndex = complete
	}
	if !w.fromIndex {
		if indexed {
			s.buildIndex(ctx, nodes)
		}
		*w = walk{of: of, after: after}
		if err := s.scanNames(ctx, nodes, w); err != nil {
			return nil, err
		}
	}
	s.walks.add(w)
	return w, nil
}

// scanNames reads the names of the server that the walk is for.
func (s *Store) scanNames(ctx context.Context, nodes redisclient.Nodes, w *walk) error {
	err := s.visitNames(ctx, nodes, func(names []string) error {
		for _, text := range names {
			if text > w.after && (!w.more || text < w.end) && matchesKey(&w.of, text) {
				w.names = append(w.names, text)
			}
		}
		if len(w.names) >= 2*walkNames {
			w.trim()
		}
		return nil
	})
	w.trim()
	w.names = slices.Clone(w.names) // without the room that the scan needed
	return err
}

// visitNames calls f with the server's names that begin with the prefix, without it. A name may
// come twice.
func (s *Store) visitNames(ctx context.Context, nodes redisclient.Nodes, f func(names []string) error) error {
	return nodes.EachPrimary(ctx, func(ctx context.Context, do commandFunc) error {
		for cursor := "0"; ; {
			r := do(ctx, "SCAN", cursor, "MATCH", redisnode.Begins(s.o.Prefix), "COUNT", "1000")
			if r.Err != nil {
				return explainRefusal(r.Err)
			}
			next, keys, ok := redisnode.Scanned(r.Value)
			if !ok {
				return errors.New("redisstore: the server's reply to SCAN makes no sense")
			}
			for i, key := range keys {
				keys[i] = strings.TrimPrefix(key, s.o.Prefix)
			}
			if err := f(keys); err != nil {
				return err
			}
			if cursor = next; cursor == "0" {
				return nil
			}
		}
	})
}

// find returns a walk that has what comes after a name, or nil. A walk through the index is only
// for requests that it can answer.
func (all *walks) find(of *storeapi.ListRequest, after string, indexed bool) *walk {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.kept {
		if w.of == *of && w.covers(after) && (indexed || !w.fromIndex) {
			w.used = time.Now()
			w.timer.Reset(walkTime)
			return w.walk
		}
	}
	return nil
}

// add keeps a walk until it is not used for a while. If there are too many, the one that was not
// used for the longest time goes.
func (all *walks) add(w *walk) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.kept) >= walksKept {
		oldest := slices.MinFunc(all.kept, func(a, b *keptWalk) int { return a.used.Compare(b.used) })
		all.remove(oldest.walk)
	}
	all.kept = append(all.kept, &keptWalk{w, time.Now(), time.AfterFunc(walkTime, func() { all.forget(w) })})
}

// forget drops a walk that has ended.
func (all *walks) forget(w *walk) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.remove(w)
}

func (all *walks) remove(w *walk) {
	all.kept = slices.DeleteFunc(all.kept, func(k *keptWalk) bool {
		if k.walk == w {
			k.timer.Stop()
		}
		return k.walk == w
	})
}
