package shardstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// The namespace of the record of the list. No other record uses it.
const listNamespace = "retrysafe-shardstore"

// listKey is the key of the list, in every shard.
var listKey = storeapi.StoreKey{Namespace: listNamespace, Layer: "map", Key: storeapi.Key{Operation: "list", ID: "shards"}}

// listCodec is the codec of a list in a record: JSON.
const listCodec = "shardlist"

// shardList is what a shard keeps of the shards that it belongs to.
type shardList struct {
	Names []string `json:"names"` // sorted
	// Home is "application" if Options.Home gives the homes of keys, and empty for Pick.
	Home string `json:"home,omitempty"`
}

func (l *shardList) equal(o *shardList) bool {
	return slices.Equal(l.Names, o.Names) && l.Home == o.Home
}

func (l *shardList) String() string {
	if l.Home == "" {
		return fmt.Sprintf("%q", l.Names)
	}
	return fmt.Sprintf("%q with Options.Home", l.Names)
}

// ownList returns the list of this store.
func (s *Store) ownList() *shardList {
	l := &shardList{Names: s.names}
	if s.home != nil {
		l.Home = "application"
	}
	return l
}

// writeTime is how long a call that writes a list may take to reach the store.
const writeTime = 5 * time.Second

// writeRequest returns the claim that writes the list in place of rec. A store never replaces a
// completed record, so the state is failed.
func (l *shardList) writeRequest(rec *storeapi.Record) storeapi.AcquireRequest {
	body, _ := json.Marshal(l) // strings: never fails
	req := storeapi.AcquireRequest{
		Key: listKey, Lease: time.Second, Retention: storeapi.Forever, OnDoubt: storeapi.Refuse, NotAfter: rec.Now.Add(writeTime),
		Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: listCodec, Body: body, Kept: true}, Cause: "list"},
	}
	if rec.State != 0 {
		req.IfFence = rec.Fence
	}
	_, _ = rand.Read(req.Owner[:]) // never fails
	return req
}

// readList returns the list that a shard has, or nil, and its record.
func (s *Store) readList(ctx context.Context, name string) (*shardList, *storeapi.Record, error) {
	rec, err := s.shards[name].Lookup(ctx, listKey)
	if err != nil {
		return nil, nil, shardError(name, err)
	}
	if rec.State == 0 {
		l, err := s.readMaps(ctx, name)
		return l, &rec, err
	}
	l := new(shardList)
	if rec.Answer.Codec != listCodec || json.Unmarshal(rec.Answer.Body, l) != nil || checkNames(l.Names) != nil || l.Home != "" && l.Home != "application" {
		return nil, nil, fmt.Errorf("shardstore: the list in shard %q cannot be read; it was damaged, or made by a newer version of this package", name)
	}
	return l, &rec, nil
}

// readMaps returns the list of the newest map of v0.1.0, which numbered its lists.
func (s *Store) readMaps(ctx context.Context, name string) (*shardList, error) {
	var last *shardList
	var moving []string
	for number := int64(1); ; number++ {
		key := storeapi.StoreKey{Namespace: listNamespace, Layer: "map", Key: storeapi.Key{Operation: "map", ID: strconv.FormatInt(number, 10)}}
		rec, err := s.shards[name].Lookup(ctx, key)
		if err != nil {
			return nil, shardError(name, err)
		}
		if rec.State != storeapi.StateCompleted {
			if len(moving) > 0 {
				return nil, fmt.Errorf("shardstore: keys move from the shards %q to %q, and this version moves none: end the move with v0.1.0, which began it", moving, last.Names)
			}
			return last, nil
		}
		var m struct {
			Number int64    `json:"number"`
			Names  []string `json:"names"`
			Was    []string `json:"was"`
		}
		if rec.Answer.Codec != "shardmap" || json.Unmarshal(rec.Answer.Body, &m) != nil || m.Number != number || checkNames(m.Names) != nil {
			return nil, fmt.Errorf("shardstore: map %d in shard %q cannot be read; it was damaged", number, name)
		}
		last = &shardList{Names: m.Names}
		moving = m.Was
	}
}

// checkList compares the list of this store with those of the shards, and gives it to shards that
// have none.
func (s *Store) checkList(ctx context.Context) error {
	mine := s.ownList()
	var silent error
	records := map[string]*storeapi.Record{} // of the shards without a list
	known := false
	for _, name := range s.names {
		l, rec, err := s.readList(ctx, name)
		switch {
		case errors.Is(err, storeapi.ErrUnavailable):
			silent = errors.Join(silent, err)
			continue
		case err != nil:
			return err
		case l != nil && !l.equal(mine):
			return fmt.Errorf("shardstore: the shards were used as %v, and this process has %v, so keys would have other homes and run again: "+
				"give all processes the same shards, or change the list with ChangeList", l, mine)
		}
		known = known || l != nil
		if rec.State == 0 {
			records[name] = rec
		}
	}
	if !known && silent != nil {
		return fmt.Errorf("shardstore: the list is made when all shards answer: %w", silent)
	}
	if !known {
		if err := s.checkHomes(ctx, s.names); err != nil {
			return err
		}
	}
	for _, name := range s.names {
		if rec := records[name]; rec != nil {
			if err := s.writeList(ctx, name, mine, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeList writes a list in place of rec, unless somebody else has written the same.
func (s *Store) writeList(ctx context.Context, name string, mine *shardList, rec *storeapi.Record) error {
	_, err := s.shards[name].Acquire(ctx, mine.writeRequest(rec))
	l, _, look := s.readList(ctx, name)
	switch {
	case look != nil:
		return errors.Join(look, shardError(name, err))
	case l != nil && l.equal(mine):
		return nil
	case err != nil:
		return shardError(name, err)
	}
	return fmt.Errorf("shardstore: another process has written the list %v to shard %q at this moment, and this one has %v: give all processes the same shards", l, name, mine)
}

// checkHomes returns a [*MisplacedError] if a shard in names has a record whose home is another
// shard. names may have shards that are not in the list of this store: no key is at home there.
func (s *Store) checkHomes(ctx context.Context, names []string) error {
	for _, name := range names {
		misplaced := &MisplacedError{Shard: name}
		unending := false
		err := s.visitRecords(ctx, name, func(rec *storeapi.Record) error {
			home, err := s.Home(rec.Key)
			if err != nil {
				return err
			}
			if home == name && slices.Contains(s.names, name) {
				return nil
			}
			if misplaced.Records++; misplaced.Records == 1 {
				misplaced.First = rec.Key.Operation
			}
			unending = unending || rec.Expires.IsZero()
			if rec.Expires.After(misplaced.Until) {
				misplaced.Until = rec.Expires
			}
			return nil
		})
		if errors.Is(err, errors.ErrUnsupported) && len(names) == 1 {
			continue // one shard is the home of all keys
		}
		if err != nil {
			return err
		}
		if unending {
			misplaced.Until = time.Time{}
		}
		if misplaced.Records > 0 {
			return misplaced
		}
	}
	return nil
}

// visitRecords calls see for every record of a shard except the list, without its body.
func (s *Store) visitRecords(ctx context.Context, name string, see func(*storeapi.Record) error) error {
	lister, ok := s.shards[name].(storeapi.Lister)
	req := storeapi.ListRequest{Limit: 1000}
	for {
		page, err := storeapi.Page{}, errors.ErrUnsupported
		if ok {
			page, err = lister.List(ctx, req)
		}
		if errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("shardstore: shard %q cannot list its records, so it is unknown which would be lost: %w", name, errors.ErrUnsupported)
		} else if err != nil {
			return shardError(name, err)
		}
		if len(page.Unreadable) > 0 { // it is unknown whether it would be lost
			return shardError(name, page.Unreadable[0].Err)
		}
		for i := range page.Records {
			if rec := &page.Records[i]; rec.Key.Namespace != listNamespace {
				if err := see(rec); err != nil {
					return err
				}
			}
		}
		if req.After = page.Next; req.After == "" {
			return nil
		}
	}
}

// MisplacedError means that a shard has records whose keys have another home by the new list. They
// would run again.
type MisplacedError struct {
	// Shard has the records.
	Shard string
	// Records is how many there are, and First is the operation of one of them.
	Records int
	First   string
	// Until is when the last of them expires, by the shard's clock. It is zero if one of them never
	// expires: it is in progress or in doubt, or is kept for ever.
	Until time.Time
}

// Error implements error.
func (e *MisplacedError) Error() string {
	until := "not all of them expire: finish or resolve those in progress and in doubt"
	if !e.Until.IsZero() {
		until = "the last one expires at " + e.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("shardstore: shard %q has %d records whose home would be another shard, one of them of %q; their keys would run again; %s",
		e.Shard, e.Records, e.First, until)
}

// ChangeList makes names the list of the shards from now on. shards are all of them, those that
// leave the list too. All of them must answer, and be able to list their records
// ([storeapi.Lister]).
//
// It refuses with a [*MisplacedError] while any shard has a record whose home would be another
// shard. So either wait until these have expired, without calls for their keys; or give o a Home
// that leaves older keys where they are, as docs/stores.md shows.
//
// Processes with the list before go on with it until they end, and cannot start again. Call
// ChangeList again after any error, also after it was interrupted.
func ChangeList(ctx context.Context, shards map[string]storeapi.Store, names []string, o *Options) error {
	every, err := newStore(shards, nil)
	if err != nil {
		return err
	}
	next := make(map[string]storeapi.Store, len(names))
	for _, name := range names {
		if shards[name] == nil {
			return fmt.Errorf("shardstore: there is no shard %q among those that were given, which are %q", name, every.names)
		}
		next[name] = shards[name]
	}
	s, err := newStore(next, o)
	if err != nil {
		return err
	}
	s.shards = every.shards // those that leave too, to read and write
	if err := s.checkHomes(ctx, every.names); err != nil {
		return err
	}
	// A shard that leaves gets the list as well: a process that has that shard alone must not go
	// on.
	for _, name := range every.names {
		l, rec, err := s.readList(ctx, name)
		if err == nil && (l == nil || !l.equal(s.ownList()) || rec.State == 0) {
			err = s.writeList(ctx, name, s.ownList(), rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
