package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// canUseIndex reports whether the index of unfinished records can serve the request, if it is
// complete. A proxy that spreads keys over several servers shows the index of one of them only.
func (s *Store) canUseIndex(req *storeapi.ListRequest) bool {
	return (req.InDoubt || req.State == storeapi.StateInProgress) && s.unfinished.name != "" && (s.single || s.unfinished.routed)
}

// readIndex reads the names of the walk in the index. It reports false if the index, or that of one
// slot, is not complete.
func (s *Store) readIndex(ctx context.Context, w *walk) (complete bool, err error) {
	begin, from := namePrefix(&w.of), w.after
	if from < begin {
		from = begin
	}
	if s.unfinished.perSlot {
		return s.readSlotIndexes(ctx, w, begin, from)
	}
	return s.readSingleIndex(ctx, w, begin, from)
}

// namePrefix returns how the names begin that the request selects.
func namePrefix(of *storeapi.ListRequest) string {
	if of.Namespace == "" {
		return ""
	}
	// never fails
	text, _ := (&storeapi.StoreKey{Namespace: of.Namespace, Layer: of.Layer}).AppendText(nil)
	parts := strings.SplitAfterN(string(text), "/", 3)
	if of.Layer == "" {
		return parts[0]
	}
	return parts[0] + parts[1]
}

// readSingleIndex reads the index of a single server, some names at a time.
func (s *Store) readSingleIndex(ctx context.Context, w *walk, begin, from string) (complete bool, err error) {
	for range walkNames / indexPageSize {
		complete, names, err := s.parseIndexReply(s.client.Eval(ctx, s.indexCall(s.unfinished.name, from)))
		if err != nil || !complete {
			return false, err
		}
		if !w.addNames(begin, names) {
			return true, nil
		}
		from = names[len(names)-1]
	}
	w.endAt(from)
	return true, nil
}

// readSlotIndexes reads the indexes of all slots of a cluster.
func (s *Store) readSlotIndexes(ctx context.Context, w *walk, begin, from string) (complete bool, err error) {
	for slots := range slices.Chunk(s.unfinished.allIndexes(), 1024) {
		calls := make([]redisclient.Call, len(slots))
		for i, name := range slots {
			calls[i] = s.indexCall(name, from)
		}
		for _, r := range redisnode.EvalMany(ctx, s.client, calls) {
			complete, names, err := s.parseIndexReply(r)
			if err != nil || !complete {
				return false, err
			}
			if w.addNames(begin, names) {
				w.endAt(names[len(names)-1]) // this slot has more
			}
		}
		if len(w.names) >= 2*walkNames {
			w.trim()
		}
	}
	w.trim()
	return true, nil
}

// indexNames is how many names of an index are read at once.
const indexPageSize = 1000

func (s *Store) indexCall(index, from string) redisclient.Call {
	if from != "" {
		from = s.o.Prefix + from
	}
	return redisclient.Call{Script: unfinishedPage, Keys: []string{index}, Args: []string{from, strconv.Itoa(indexPageSize)}}
}

// parseIndexReply reads the reply to indexCall.
func (s *Store) parseIndexReply(r redisclient.Reply) (complete bool, names []string, err error) {
	if r.Err != nil {
		return false, nil, explainRefusal(r.Err)
	}
	pair, _ := r.Value.([]any)
	if len(pair) != 2 {
		return false, nil, errReply
	}
	mark, isMark := pair[0].(int64)
	list, isList := pair[1].([]any)
	if !isMark || !isList {
		return false, nil, errReply
	}
	for _, v := range list {
		name, ok := v.(string)
		if !ok {
			return false, nil, errReply
		}
		names = append(names, strings.TrimPrefix(name, s.o.Prefix))
	}
	return mark == 1, names, nil
}

// addNames adds those of an index's next names that the walk is for, and reports whether the index
// may have more of them.
func (w *walk) addNames(begin string, names []string) (more bool) {
	for _, text := range names {
		if !strings.HasPrefix(text, begin) {
			return false
		}
		if matchesKey(&w.of, text) {
			w.names = append(w.names, text)
		}
	}
	return len(names) == indexPageSize
}

// removeFinished removes the names of records from the index that are not in progress any more. The
// script looks at each record again. What fails stays for the next list.
func (s *Store) removeFinished(ctx context.Context, names []string, records []storeapi.Record, errs []error) {
	var spent []string
	for i := range records {
		if errs[i] == nil && records[i].State != storeapi.StateInProgress {
			spent = append(spent, names[i])
		}
	}
	if len(spent) > 0 {
		redisnode.EvalMany(ctx, s.client, s.setCalls(spent))
	}
}

// setCalls returns calls that bring the index up to date for records.
func (s *Store) setCalls(names []string) []redisclient.Call {
	calls := make([]redisclient.Call, len(names))
	for i, name := range names {
		name = s.o.Prefix + name
		calls[i] = redisclient.Call{Script: unfinishedSet, Keys: []string{name, s.unfinished.indexOf(name)}, Join: s.joins}
	}
	return calls
}
