package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// progressIndexes is what this store knows about its indexes. An index has the keys of one
// operation whose records may have progress, so that a worker reads only those, however many
// records have finished. A key is added before its progress is stored, so all stored progress is
// found.
type progressIndexes struct {
	mu sync.Mutex
	// added are attempts whose key is in the index. The key stays there while one of them can still
	// store progress.
	added map[attempt]bool
	// cleanAt is the number of names at which an index is cleaned without a worker.
	cleanAt map[string]int64
}

type attempt struct {
	name  string
	fence storeapi.Fence
}

const (
	// addedMost limits the remembered attempts; a forgotten one is added again.
	addedMost = 4096
	// An index of up to fewNames names is cleaned only by lists.
	fewNames = 1024
)

// indexName returns the key of an index. It is never a record's key, since it has no id.
func (s *Store) indexName(namespace, layer, operation string) string {
	k := storeapi.StoreKey{Namespace: namespace, Layer: "progress", Key: storeapi.Key{Tenant: layer, Operation: operation}}
	text, _ := k.AppendText([]byte(s.o.Prefix)) // never fails
	return string(text)
}

// addToIndex adds the key of a record that is about to store progress.
func (s *Store) addToIndex(ctx context.Context, key *storeapi.StoreKey, fence storeapi.Fence) error {
	text, err := key.MarshalText()
	if err != nil {
		return err
	}
	x, this := &s.progressIndexes, attempt{string(text), fence}
	if x.hasAttempt(this) {
		return nil
	}
	index := s.indexName(key.Namespace, key.Layer, key.Operation)
	names, err := s.addIndexName(ctx, redisclient.Call{Script: indexAdd, Keys: []string{index}, Args: []string{this.name}})
	if err != nil {
		return err
	}
	if x.addAttempt(this, index, names) {
		of := storeapi.ListRequest{Namespace: key.Namespace, Layer: key.Layer, Operation: key.Operation, Progress: true, Limit: 1000}
		go s.cleanIndex(context.WithoutCancel(ctx), index, of)
	}
	return nil
}

// addIndexName adds a name, on as many replicas as a record needs, and returns the number of names.
func (s *Store) addIndexName(ctx context.Context, call redisclient.Call) (names int64, err error) {
	r, acked, need := s.primaries.Eval(ctx, call)
	names, ok := r.Value.(int64)
	switch {
	case r.Err != nil:
		return 0, explainRefusal(r.Err)
	case !ok:
		return 0, errReply
	case acked < need:
		return 0, &replicasError{acked, need}
	}
	return names, nil
}

func (x *progressIndexes) hasAttempt(a attempt) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.added[a]
}

// addAttempt remembers an attempt, and reports whether the caller should clean the index. No other
// caller is then told to.
func (x *progressIndexes) addAttempt(a attempt, index string, names int64) (full bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.added == nil || len(x.added) >= addedMost {
		x.added = make(map[attempt]bool)
	}
	x.added[a] = true
	if names < max(fewNames, x.cleanAt[index]) {
		return false
	}
	if x.cleanAt == nil {
		x.cleanAt = make(map[string]int64)
	}
	x.cleanAt[index] = names * 1000 // until the index was cleaned
	return true
}

// cleanIndex reads the index once, which removes finished records. Without a worker, nothing else
// removes them.
func (s *Store) cleanIndex(ctx context.Context, index string, of storeapi.ListRequest) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var left int64
	for more := true; more; more = of.After != "" {
		page, err := s.listIndexed(ctx, of)
		if err != nil {
			break // tried again later
		}
		left += int64(len(page.Records))
		of.After = page.Next
	}
	s.progressIndexes.mu.Lock()
	defer s.progressIndexes.mu.Unlock()
	s.progressIndexes.cleanAt[index] = 2 * left
}

// listIndexed is List for the records in an index. Pages end at the place that was the last when
// the walk began.
func (s *Store) listIndexed(ctx context.Context, req storeapi.ListRequest) (page storeapi.Page, err error) {
	index := s.indexName(req.Namespace, req.Layer, req.Operation)
	from, to, _ := strings.Cut(req.After, "-")
	if from == "" {
		from = "0"
	}
	for len(page.Records) < req.Limit {
		names, last, err := s.readIndexPage(ctx, index, from, to, min(200, req.Limit-len(page.Records)))
		if err != nil || len(names.texts) == 0 {
			page.Next = ""
			return page, err
		}
		if err := s.addEntries(ctx, &req, &page, index, names); err != nil {
			return storeapi.Page{}, err
		}
		from, to = names.places[len(names.places)-1], last
		page.Next = from + "-" + to
	}
	return page, nil
}

// addEntries adds matching records to the page, and removes names from the index whose records have
// finished or are gone.
func (s *Store) addEntries(ctx context.Context, req *storeapi.ListRequest, page *storeapi.Page, index string, names indexEntries) error {
	records, errs, err := s.readHeads(ctx, names.texts)
	if err != nil {
		return err
	}
	var spent []string
	page.Read += len(records)
	for i := range records {
		rec := &records[i]
		switch {
		case errs[i] != nil:
			page.Unreadable = append(page.Unreadable, storeapi.Unreadable{Key: rec.Key, Err: errs[i]})
		case rec.State == 0, rec.State.Finished():
			spent = append(spent, names.texts[i], names.places[i])
		case matchesState(req, rec):
			page.Records = append(page.Records, *rec)
		}
	}
	if len(spent) == 0 {
		return nil
	}
	if r := s.client.Eval(ctx, redisclient.Call{Script: indexDrop, Keys: []string{index}, Args: spent}); r.Err != nil {
		return explainRefusal(r.Err)
	}
	return nil
}

// indexEntries are names in an index, with their places.
type indexEntries struct{ texts, places []string }

func (s *Store) readIndexPage(ctx context.Context, index, from, to string, limit int) (names indexEntries, last string, err error) {
	for _, place := range []string{from, to} {
		if _, err := strconv.ParseUint(place, 10, 64); err != nil && place != "" {
			return names, "", errors.New("redisstore: list: After is not what this store has returned; leave it empty for the first page, and then use Page.Next")
		}
	}
	r := s.client.Eval(ctx, redisclient.Call{Script: indexPage, Keys: []string{index}, Args: []string{from, to, strconv.Itoa(limit)}})
	if r.Err != nil {
		return names, "", explainRefusal(r.Err)
	}
	pair, _ := r.Value.([]any)
	if len(pair) != 2 {
		return names, "", errReply
	}
	last, ok := pair[0].(string)
	list, isList := pair[1].([]any)
	if !ok || !isList || len(list)%2 != 0 {
		return names, "", errReply
	}
	for i := 0; i < len(list); i += 2 {
		text, isText := list[i].(string)
		score, isScore := list[i+1].(string)
		place, err := strconv.ParseFloat(score, 64)
		if !isText || !isScore || err != nil {
			return names, "", errReply
		}
		names.texts, names.places = append(names.texts, text), append(names.places, fmt.Sprintf("%.0f", place))
	}
	return names, last, nil
}
