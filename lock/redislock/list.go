package redislock

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
)

var _ lock.Lister = (*Backend)(nil)

// mostScanned is how many runs of SCAN one call of List makes. Each looks at about scanCount keys
// of the server, locks or not.
const (
	mostScanned = 100
	scanCount   = 1000
)

// List implements [lock.Lister]. It walks the keys of one primary by SCAN, about 100,000 of them
// in one call; the pages of a cluster come from one primary after the other. So give locks a
// database or a server of their own if there are many other keys and people look often.
//
// Names are in no order. Waiting is the number of the server's clients that listen for a release;
// it is not known in a cluster, nor if the user may not PUBSUB. List needs SCAN, in a cluster
// CLUSTER MYID, and a client with [redisclient.Nodes]. A [Quorum] has no list: no server of it
// knows whether a majority has granted a lock.
func (b *Backend) List(ctx context.Context, r lock.ListRequest) (lock.Page, error) {
	nodes, ok := b.client.(redisclient.Nodes)
	if !ok {
		return lock.Page{}, errors.ErrUnsupported
	}
	if ctx.Err() != nil {
		return lock.Page{}, context.Cause(ctx)
	}
	at, err := parsePlace(r.After)
	if err != nil {
		return lock.Page{}, err
	}
	ids, err := primaryNames(ctx, nodes)
	if err != nil || len(ids) == 0 {
		return lock.Page{}, err
	}
	// A primary that is away by now is followed by the next one.
	i, same := slices.BinarySearch(ids, at.node)
	if i == len(ids) {
		return lock.Page{}, nil
	}
	if !same {
		at = listPlace{node: ids[i], cursor: "0"}
	}
	var held []lock.Held
	seen := false
	err = eachPrimary(ctx, nodes, func(ctx context.Context, id string, do redisnode.Do) error {
		if id != at.node || seen {
			return nil
		}
		seen = true
		held, err = b.readPage(ctx, do, &at, r.Size())
		if err == nil && len(ids) == 1 {
			b.countWaiting(ctx, do, held)
		}
		return err
	})
	switch {
	case err != nil:
		return lock.Page{}, err
	case at.cursor != "0" || at.last != "":
		return lock.Page{Locks: held, Next: at.String()}, nil
	case i+1 < len(ids):
		return lock.Page{Locks: held, Next: listPlace{node: ids[i+1], cursor: "0"}.String()}, nil
	}
	return lock.Page{Locks: held}, nil
}

// listPlace is where the next page of a list begins: at a cursor of SCAN of a primary. If last is
// set, that run of SCAN returned more names than a page has room for, and those up to last were
// listed; names is the digest of them all. Another run can return other names, also for the same
// cursor: then all of them are listed, since it is not known which ones were.
type listPlace struct{ node, cursor, names, last string }

// String returns the place as text for [lock.Page].
func (p listPlace) String() string {
	return p.node + " " + p.cursor + " " + p.names + " " + p.last
}

var errAfter = errors.New("redislock: after is not what List has returned; leave it empty for the first page")

func parsePlace(text string) (listPlace, error) {
	if text == "" {
		return listPlace{cursor: "0"}, nil
	}
	parts := strings.SplitN(text, " ", 4)
	if len(parts) != 4 || strings.Trim(parts[1], "0123456789") != "" || parts[1] == "" {
		return listPlace{}, errAfter
	}
	return listPlace{parts[0], parts[1], parts[2], parts[3]}, nil
}

// eachPrimary calls f for each primary with the name that it has in its cluster; a server that is
// in no cluster has the name "".
func eachPrimary(ctx context.Context, nodes redisclient.Nodes, f func(ctx context.Context, id string, do redisnode.Do) error) error {
	return nodes.EachPrimary(ctx, func(ctx context.Context, do func(context.Context, ...string) redisclient.Reply) error {
		r := do(ctx, "CLUSTER", "MYID")
		if _, refused := errors.AsType[redisclient.Error](r.Err); r.Err != nil && !refused {
			return r.Err
		}
		id, _ := r.Value.(string)
		return f(ctx, id, do)
	})
}

// primaryNames returns the sorted names of the primaries.
func primaryNames(ctx context.Context, nodes redisclient.Nodes) (ids []string, err error) {
	err = eachPrimary(ctx, nodes, func(_ context.Context, id string, _ redisnode.Do) error {
		if id == "" && len(ids) > 0 {
			return errors.New("redislock: to list the locks of a cluster, the user needs CLUSTER MYID")
		}
		ids = append(ids, id)
		return nil
	})
	slices.Sort(ids)
	return ids, err
}

// readPage reads locks from a place on, and moves the place. At the end of the primary the cursor
// is 0 and last is empty. A page ends before a run of SCAN whose locks have no room; if there is no
// room for one run, it reads a shorter one.
func (b *Backend) readPage(ctx context.Context, do redisnode.Do, at *listPlace, limit int) (held []lock.Held, err error) {
	count := scanCount
	if at.last != "" {
		count = 1 // as in the run that was split
	}
	for range mostScanned {
		next, names, err := b.scanNames(ctx, do, at.cursor, count)
		if err != nil {
			return nil, err
		}
		all := digestNames(names)
		if at.last != "" && at.names == all {
			rest, _ := slices.BinarySearch(names, at.last+"\x00") // after last
			names = names[rest:]
		}
		some, err := b.readHeld(ctx, names)
		if err != nil {
			return nil, err
		}
		switch {
		case len(held)+len(some) <= limit:
			held = append(held, some...)
			at.cursor, at.names, at.last = next, "", ""
			if next == "0" || len(held) == limit {
				return held, nil
			}
			count = scanCount
		case len(held) > 0:
			return held, nil
		case count > 1:
			count /= 2
		default: // many names in one bucket of the server's table
			at.names, at.last = all, some[limit-1].Name
			return some[:limit], nil
		}
	}
	return held, nil
}

func digestNames(names []string) string {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write(append([]byte(name), 0)) // names have no zero byte
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// scanNames returns the names that could be locks, in their order, of about as many keys as count.
func (b *Backend) scanNames(ctx context.Context, do redisnode.Do, cursor string, count int) (next string, names []string, err error) {
	r := do(ctx, "SCAN", cursor, "MATCH", redisnode.Begins(b.o.Prefix), "COUNT", strconv.Itoa(count), "TYPE", "string")
	if r.Err != nil {
		return "", nil, explainRefusal(r.Err)
	}
	next, keys, ok := redisnode.Scanned(r.Value)
	if !ok {
		return "", nil, errReply
	}
	for _, key := range keys {
		if name, ok := strings.CutPrefix(key, b.o.Prefix); ok && name != "" && !strings.Contains(name, "\x00") {
			// no floor
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return next, slices.Compact(names), nil // SCAN may return a name twice
}

// readHeld returns the locks of these names that are held.
func (b *Backend) readHeld(ctx context.Context, names []string) (held []lock.Held, err error) {
	for some := range slices.Chunk(names, 200) {
		calls := make([]redisclient.Call, len(some))
		for i, name := range some {
			calls[i] = redisclient.Call{Script: heldLockScript, Keys: []string{b.o.Prefix + name}}
		}
		for i, r := range redisnode.EvalMany(ctx, b.client, calls) {
			if r.Err != nil {
				return nil, explainRefusal(r.Err)
			}
			text, ok := r.Value.(string)
			switch {
			case !ok || text != "" && len(text) != 41:
				return nil, errReply
			case text == "" || text[0] != 1: // free, or no lock
				continue
			}
			number := func(at int) uint64 { return binary.BigEndian.Uint64([]byte(text[at:])) }
			if left := int64(number(25) - number(33)); number(25) != 0 && left > 0 { //nolint:gosec // times in microseconds
				held = append(held, lock.Held{
					Name: some[i], Fence: toFence(int64(number(17))), //nolint:gosec // scripts make none above
					Lease: time.Duration(left) * time.Microsecond, Waiting: -1,
				})
			}
		}
	}
	return held, nil
}

// countWaiting sets how many clients of a single server listen for the release of each lock.
func (b *Backend) countWaiting(ctx context.Context, do redisnode.Do, held []lock.Held) {
	if len(held) == 0 {
		return
	}
	cmd, places := []string{"PUBSUB", "NUMSUB"}, map[any]int{}
	for i, h := range held {
		channel := b.o.Prefix + h.Name
		cmd, places[channel] = append(cmd, channel), i
	}
	counts, _ := do(ctx, cmd...).Value.([]any) // without the right, nothing is known
	for pair := range slices.Chunk(counts, 2) {
		i, ours := places[pair[0]]
		if n, ok := pair[len(pair)-1].(int64); ok && ours {
			held[i].Waiting = int(n)
		}
	}
}
