package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/batch"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	// Own copies: the caller may reuse its slices.
	req.Fingerprint, req.Binding = bytes.Clone(req.Fingerprint), bytes.Clone(req.Binding)
	size := len(req.Fingerprint) + len(req.Binding)
	if req.Finish != nil {
		req.Finish = protocol.OwnFinish(req.Finish)
		size += len(req.Finish.Answer.Body)
	}
	var row protocol.Row
	var now protocol.Micros
	request := &acquireCall{req: req}
	id, err := s.checkKey(ctx, &req.Key)
	if err == nil {
		row, now, err = s.queue.ClaimKey(&table.Call{Ctx: ctx, Key: req.Key, ID: id, NotAfter: req.NotAfter, Size: size, Request: request})
	}
	if err != nil {
		var lock *table.LockError
		if errors.As(err, &lock) && lock.Ended == nil && !req.NotAfter.IsZero() && s.db.Clock().After(req.NotAfter) {
			err = storeapi.ErrTooLate
		}
		return storeapi.Acquired{}, err
	}
	return storeapi.Acquired{Status: request.status, Record: row.Record(req.Key, now)}, nil
}

// acquireCall is a call of Acquire.
type acquireCall struct {
	req    storeapi.AcquireRequest
	status storeapi.Status // a caller that has left does not read it
}

func (c *acquireCall) Decide(found table.Loaded) (next protocol.Row, write bool, err error) {
	next, c.status, write, err = protocol.Acquire(found.Row, found.Now, found.Floor, &c.req)
	return next, write, err
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	size := 0
	if req.Progress != nil {
		own := *req.Progress
		own.Body = bytes.Clone(own.Body)
		req.Progress, size = &own, len(own.Body)
	}
	id, err := s.checkKey(ctx, &req.Key)
	if err != nil {
		return err
	}
	_, _, err = s.queue.ChangeRecord(batch.HeartbeatLine, &table.Call{Ctx: ctx, Key: req.Key, ID: id, Size: size, Request: &extendCall{req}})
	return err
}

// extendCall is a call of Extend.
type extendCall struct{ req storeapi.ExtendRequest }

func (c *extendCall) Decide(found table.Loaded) (next protocol.Row, write bool, err error) {
	next, err = protocol.Extend(found.Row, found.Now, &c.req)
	return next, err == nil, err
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	if s.grouped {
		req.Answer.Body = bytes.Clone(req.Answer.Body)
	}
	id, err := s.checkKey(ctx, &req.Key)
	if err != nil {
		return storeapi.Record{}, err
	}
	request := &completeCall{req, s.db.Dialect == PostgreSQL}
	row, now, err := s.queue.ChangeRecord(batch.ClaimLine, &table.Call{Ctx: ctx, Key: req.Key, ID: id, Size: len(req.Answer.Body), Request: request})
	if err != nil {
		return storeapi.Record{}, err
	}
	if !req.Quiet {
		s.announceEnd(id)
	}
	return row.Record(req.Key, now), nil
}

// completeCall is a call of Complete.
type completeCall struct {
	req storeapi.CompleteRequest
	// writesAgain: a finish that is already stored is written once more. If PostgreSQL's wait for
	// its synchronous replicas was interrupted, commits are visible before the replicas have them.
	// So a repeated call, whose first outcome was unknown, is answered after a COMMIT of its own.
	writesAgain bool
}

func (c *completeCall) Decide(found table.Loaded) (next protocol.Row, write bool, err error) {
	next, write, err = protocol.Complete(found.Row, found.Now, &c.req)
	return next, write || err == nil && c.writesAgain, err
}

// Release implements [storeapi.Store].
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	id, err := s.checkKey(ctx, &req.Key)
	if err != nil {
		return err
	}
	request := &releaseCall{req, s.db.Dialect == PostgreSQL}
	_, _, err = s.queue.ChangeRecord(batch.ClaimLine, &table.Call{Ctx: ctx, Key: req.Key, ID: id, Request: request})
	if err == nil && !req.Quiet {
		s.announceEnd(id)
	}
	return err
}

// releaseCall is a call of Release.
type releaseCall struct {
	req         storeapi.ReleaseRequest
	writesAgain bool // as in completeCall
}

func (c *releaseCall) Decide(found table.Loaded) (next protocol.Row, write bool, err error) {
	next, write, err = protocol.Release(found.Row, found.Now, &c.req)
	return next, write || err == nil && c.writesAgain, err
}

// ForgetAnswer implements [storeapi.Forgetter].
func (s *Store) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	id, err := s.checkKey(ctx, &req.Key)
	if err != nil {
		return err
	}
	request := &forgetCall{req, s.db.Dialect == PostgreSQL}
	_, _, err = s.queue.ChangeRecord(batch.ClaimLine, &table.Call{Ctx: ctx, Key: req.Key, ID: id, Request: request})
	return err
}

// forgetCall is a call of ForgetAnswer.
type forgetCall struct {
	req         storeapi.ForgetRequest
	writesAgain bool // as in completeCall
}

func (c *forgetCall) Decide(found table.Loaded) (next protocol.Row, write bool, err error) {
	next, write, err = protocol.Forget(found.Row, found.Now, &c.req)
	return next, write || err == nil && c.writesAgain, err
}

// Lookup implements [storeapi.Store]. A key whose transaction (RunTx) is open in this process is
// in progress; the content of its record is not known before the commit.
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	id, err := s.checkKey(ctx, &key)
	if err != nil {
		return storeapi.Record{}, err
	}
	// asked first: if it is not open any more, the record shows its outcome
	open := s.runningTxs.runningTx(id) != nil
	found, err := s.queue.LookUp(ctx, id)
	if err != nil {
		return storeapi.Record{}, err
	}
	rec := found.Row.Record(key, found.Now)
	if open && rec.State == 0 {
		rec.State, rec.OnDoubt, rec.LeaseLeft = storeapi.StateInProgress, storeapi.Refuse, strayLease
	}
	return rec, nil
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	id, err := s.checkKey(ctx, &req.Key)
	if err != nil {
		return 0, err
	}
	request := &issueCall{req: req}
	if _, _, err := s.queue.ChangeRecord(batch.ClaimLine, &table.Call{Ctx: ctx, Key: req.Key, ID: id, Request: request}); err != nil {
		return 0, err
	}
	return request.status, nil
}

// issueCall is a call of Issue.
type issueCall struct {
	req    storeapi.IssueRequest
	status storeapi.Status // a caller that has left does not read it
}

func (c *issueCall) Decide(found table.Loaded) (next protocol.Row, write bool, err error) {
	next, c.status, write = protocol.Issue(found.Row, found.Now, &c.req)
	return next, write, nil
}

// checkKey refuses invalid calls before they reach the database, and returns the id of the record.
func (s *Store) checkKey(ctx context.Context, key *storeapi.StoreKey) (id table.RecordID, err error) {
	if err := checkContext(ctx, s.db.Pool); err != nil {
		return id, err
	}
	if err := key.Validate(); err != nil {
		return id, err
	}
	if !s.db.SchemaKnown.Load() {
		if err := s.findTables(ctx); err != nil {
			return id, err
		}
	}
	text, _ := key.AppendText(make([]byte, 0, 256)) // never fails
	return table.IDOf(text), nil
}

// checkCall is checkKey for a call without a key.
func (s *Store) checkCall(ctx context.Context) error {
	if err := checkContext(ctx, s.db.Pool); err != nil {
		return err
	}
	return s.findTables(ctx)
}

// txMark is in the context that RunTx gives to the work. A call on the same database with this
// context would wait for the transaction that waits for it.
type txMark struct {
	db    *sql.DB
	outer *txMark // mark of a transaction on another database, around this one
	ended atomic.Bool
}

type txMarkKey struct{}

// markContext returns ctx with a mark. After end, calls with that context are accepted again.
func markContext(ctx context.Context, db *sql.DB) (inside context.Context, end func()) {
	m := &txMark{db: db}
	m.outer, _ = ctx.Value(txMarkKey{}).(*txMark)
	return context.WithValue(ctx, txMarkKey{}, m), func() { m.ended.Store(true) }
}

// checkContext refuses a call from within a transaction on this database, or whose context has
// ended.
func checkContext(ctx context.Context, db *sql.DB) error {
	m, _ := ctx.Value(txMarkKey{}).(*txMark)
	for ; m != nil; m = m.outer {
		if m.db == db && !m.ended.Load() {
			return storeapi.ErrInTransaction
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: the context had ended before the call: %w", err)
	}
	return nil
}

// Waiting returns how many calls are queued for a transaction. If it stays above twice 128, the
// database cannot keep up.
func (s *Store) Waiting() int {
	if !s.grouped {
		return 0
	}
	return s.queue.CountWaiting() + s.chargeQueues.reading.countWaiting() + s.chargeQueues.writing.countWaiting()
}

// findTables looks once for the schema or the database of the tables, and writes it into all
// statements: the work can change the search_path or the database of a session, which would find
// other tables then. Without tables it finds none, and the next call looks again.
func (s *Store) findTables(ctx context.Context) error {
	if s.db.SchemaKnown.Load() {
		return nil
	}
	var schema string
	err := s.db.Backend.ReadTables(ctx, table.OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		err := db.QueryRowContext(ctx, s.db.Statements.Load().FindSchema).Scan(&schema)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return s.db.WaitedInVain(s.db.LockWait, nil)
	case err != nil:
		return s.db.CallerError("look for the tables", err)
	case strings.ContainsAny(schema, "?'\"`\\"): // no statement can name it
		s.db.SchemaKnown.Store(true)
	case schema != "":
		s.db.UseSchema(schema)
	}
	return nil
}
