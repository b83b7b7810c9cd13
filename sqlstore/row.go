package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/storeapi"
)

// loaded is the input of a decision.
type loaded struct {
	row   protocol.Row
	floor storeapi.Fence  // the largest fence of a removed record
	now   protocol.Micros // the store's clock
}

// byCount reports whether a statement has inserted a row.
func byCount(r sql.Result) (bool, error) {
	n, err := r.RowsAffected()
	return n > 0, err
}

// insertArgs returns the values of inserted.
func insertArgs(key *storeapi.StoreKey, id recordID, row *protocol.Row) []any {
	return append([]any{id[:], partsOf(key)}, rowArgs(row)...)
}

// rowArgs returns the values of stored.
func rowArgs(r *protocol.Row) []any {
	return append([]any{r.Owner[:], int64(r.Fence)}, finishedArgs(r)...) //nolint:gosec // fences stay below 2^53
}

// finishedArgs returns the values of finished.
func finishedArgs(r *protocol.Row) []any {
	data := appendData(make([]byte, 0, 96), r)
	return []any{int64(r.State), r.LeaseEnd, r.Expires, r.Updated, data, blob(r.Answer.Body)}
}

// finishArgs returns the arguments of queries.finish for the attempt of a row.
func finishArgs(id recordID, r *protocol.Row) []any {
	return append(finishedArgs(r), id[:], r.Owner[:], int64(r.Fence)) //nolint:gosec // fences stay below 2^53
}

func fenceOf(n int64) storeapi.Fence {
	return storeapi.Fence(n) //nolint:gosec // fences stay below 2^53
}

// blob returns NULL for nil. Some drivers turn a typed nil into an empty value.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// rowScan receives the columns of selected and the answer after them.
type rowScan struct {
	r           protocol.Row
	state       uint8
	fence       int64
	owner, data []byte
}

func (s *rowScan) fields() []any {
	r := &s.r
	return []any{&s.owner, &s.fence, &s.state, &r.LeaseEnd, &r.Expires, &r.Updated, &s.data, &r.Answer.Body}
}

// row returns the row that was read, or an error if this package cannot have written it: no
// decision is based on a damaged row.
func (s *rowScan) row() (protocol.Row, error) {
	r := s.r
	if s.state == 0 {
		return protocol.Row{}, nil
	}
	r.State = storeapi.State(s.state)
	if r.State > storeapi.StateReleased || len(s.owner) != len(r.Owner) {
		return protocol.Row{}, fmt.Errorf("the record is damaged: state %d, owner of %d bytes; look at it by its id before you remove it",
			s.state, len(s.owner))
	}
	r.Fence = fenceOf(s.fence)
	copy(r.Owner[:], s.owner)
	if err := parseData(&r, s.data); err != nil {
		return protocol.Row{}, err
	}
	return r, nil
}

// querier is a connection, a transaction or a pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
