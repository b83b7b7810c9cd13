package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// keyspace is a server that has records with numbered keys, and answers SCAN and look-ups.
type keyspace struct {
	records int
	scans   atomic.Int64
	stall   func(scan int64) // is called at the beginning of each scan
}

func (k *keyspace) name(i int) string {
	text, _ := storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "o", ID: fmt.Sprintf("%07d", i)}}.MarshalText()
	return string(text)
}

func (k *keyspace) EachPrimary(ctx context.Context, f func(context.Context, func(context.Context, ...string) redisclient.Reply) error) error {
	return f(ctx, func(_ context.Context, cmd ...string) redisclient.Reply {
		at := 0
		_, _ = fmt.Sscan(cmd[1], &at)
		if at == 0 {
			if n := k.scans.Add(1); k.stall != nil {
				k.stall(n)
			}
		}
		var names []any
		for i := range 1000 {
			if at+i < k.records {
				names = append(names, "p:"+k.name((at+i)*7919%k.records)) // in no order
			}
		}
		next := fmt.Sprint(at + 1000)
		if at+1000 >= k.records {
			next = "0"
		}
		return redisclient.Reply{Value: []any{next, names}}
	})
}

func (k *keyspace) Eval(_ context.Context, c redisclient.Call) redisclient.Reply {
	row := protocol.Row{State: storeapi.StateCompleted, Attempt: 1, Fence: 7, Created: 1, Updated: 1}
	packed, _ := row.AppendBinary(nil)
	if !strings.HasPrefix(c.Keys[0], "p:") {
		return redisclient.Reply{Err: redisclient.Error("ERR a key without the prefix")}
	}
	return redisclient.Reply{Value: "\x63" + packInt(1) + string(packed)}
}

func (k *keyspace) store() *Store { return &Store{client: k, o: Options{Prefix: "p:"}} }

// TestSlowListHoldsUpNoOther: while one list waits for the server, another one goes on.
func TestSlowListHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	stuck, free := make(chan struct{}), make(chan struct{})
	k := &keyspace{records: 2500, stall: func(scan int64) {
		if scan == 1 {
			close(stuck)
			<-free
		}
	}}
	s := k.store()
	ended := make(chan error, 1)
	go func() {
		_, err := s.List(t.Context(), storeapi.ListRequest{})
		ended <- err
	}()
	<-stuck
	page, err := s.List(t.Context(), storeapi.ListRequest{Operation: "o", Limit: 1000})
	assert.True(t, err == nil && len(page.Records) == 1000, "another list: %d, %v", len(page.Records), err)
	close(free)
	assert.NoError(t, <-ended, "the slow list")
}

// TestListsSideBySide: lists that take turns do not scan the server again for each page.
func TestListsSideBySide(t *testing.T) {
	t.Parallel()
	k := &keyspace{records: 2500}
	s := k.store()
	after := []string{"", "", ""}
	found := 0
	for range 5 {
		for i, of := range []storeapi.ListRequest{{}, {Operation: "o"}, {Namespace: "n"}} {
			of.After, of.Limit = after[i], 500
			page, err := s.List(t.Context(), of)
			assert.NoError(t, err, "List")
			found += len(page.Records)
			after[i] = page.Next
		}
	}
	assert.Equal(t, found, 3*k.records, "records")
	assert.Equal(t, k.scans.Load(), int64(3), "scans of the server")
}

// TestListOfManyIsBounded: a list keeps a bounded number of names, however many the server has, and
// finds each record once.
func TestListOfManyIsBounded(t *testing.T) {
	t.Parallel()
	k := &keyspace{records: 300_000}
	s := k.store()
	next, last, found := "", "", 0
	for more := true; more; more = next != "" {
		page, err := s.List(t.Context(), storeapi.ListRequest{After: next, Limit: 1000})
		assert.NoError(t, err, "List")
		for i := range page.Records {
			assert.True(t, page.Records[i].Key.ID > last, "%q comes after %q", page.Records[i].Key.ID, last)
			last = page.Records[i].Key.ID
		}
		found += len(page.Records)
		next = page.Next
		if found == 1000 {
			assert.True(t, s.namesKept() <= 1<<16, "names that are kept: %d", s.namesKept())
		}
	}
	assert.Equal(t, found, k.records, "records")
	assert.True(t, k.scans.Load() <= 6, "scans of the server: %d", k.scans.Load())
	assert.Equal(t, s.namesKept(), 0, "names that are kept after the list")
}

// namesKept returns how many names are kept between pages.
func (s *Store) namesKept() (n int) {
	s.walks.mu.Lock()
	defer s.walks.mu.Unlock()
	for _, w := range s.walks.kept {
		n += len(w.names)
	}
	return n
}
