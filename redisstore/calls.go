package redisstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/storeapi"
)

// Answers of scripts in addition to the values of storeapi.Status.
const (
	// completed: the caller builds the record from its request and what the script returns
	ended = 98
	fresh = 99  // won by the first call for the key: the record is what was requested
	lost  = 100 // the record belongs to another caller
	late  = 101 // NotAfter has passed
	done  = 102
)

// answer is a script's answer: a code, the server's time in microseconds, and the parts of the
// packed record that the script returns.
type answer struct {
	code   byte
	now    protocol.Micros
	packed []byte
}

// eval makes a call.
func (s *Store) eval(ctx context.Context, call redisclient.Call) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	return s.read(s.client.Eval(ctx, call))
}

func (s *Store) read(r redisclient.Reply) (answer, error) {
	if r.Err != nil {
		return answer{}, refusal(r.Err)
	}
	if text, ok := r.Value.(string); ok && len(text) >= 9 {
		return answer{text[0], micros(text[1:]), []byte(text[9:])}, nil
	}
	return answer{}, errReply
}

var errReply = errors.New("redisstore: the server's reply is not that of the script; is there a proxy in between that changes replies?")

// record parses the packed record; empty means that there is none.
func (a *answer) record(key storeapi.StoreKey) (storeapi.Record, error) {
	var row protocol.Row
	if len(a.packed) > 0 {
		var err error
		if row, err = protocol.ParseRow(a.packed); err != nil {
			return storeapi.Record{}, err
		}
	}
	return row.Record(key, a.now), nil
}

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	call, err := s.acquireCall(&req)
	if err != nil {
		return storeapi.Acquired{}, err
	}
	a, err := s.confirmed(ctx, call, won)
	if got, ok := s.finishedThough(ctx, &req, err); ok {
		return got, nil
	}
	return a.acquired(&req, call.Args, err)
}

// finishedThough returns the answer of a finished record while the server refuses writes because
// its memory is full.
func (s *Store) finishedThough(ctx context.Context, req *storeapi.AcquireRequest, err error) (got storeapi.Acquired, ok bool) {
	var refused redisclient.Error
	if !errors.As(err, &refused) || refused.Code() != "OOM" {
		return got, false
	}
	if got.Record, err = s.Lookup(ctx, req.Key); err != nil {
		return got, false
	}
	got.Status = protocol.Finished(&got.Record, req)
	return got, got.Status != 0
}

// acquired reads the answer to a call with args.
func (a *answer) acquired(req *storeapi.AcquireRequest, args []string, err error) (storeapi.Acquired, error) {
	if err != nil {
		return storeapi.Acquired{}, err
	}
	if a.code == late {
		return storeapi.Acquired{}, storeapi.ErrTooLate
	}
	if a.code == fresh {
		a.code, a.packed = byte(storeapi.StatusAcquired), freshRecord(a, args[0][:8], args[0][8:24], protocol.Span(req.Lease), args[1])
	}
	rec, err := a.record(req.Key)
	return storeapi.Acquired{Status: storeapi.Status(a.code), Record: rec}, err
}

// freshRecord returns the record that Acquire has created.
func freshRecord(a *answer, new8, owner string, lease protocol.Micros, behind string) []byte {
	b := append(make([]byte, 0, 64+len(behind)), new8...)
	b = append(appendMicros(b, a.now), owner...) // the fence is the time
	b = append(appendMicros(b, a.now+lease), a.packed...)
	return append(appendMicros(appendMicros(b, a.now), a.now), behind...)
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	call, err := s.extendCall(&req)
	if err != nil {
		return err
	}
	call.Alone = true // E6
	if req.Progress == nil && !req.Works {
		a, err := s.eval(ctx, call)
		return a.unlessLost(err)
	}
	if req.Progress != nil {
		if err := s.index(ctx, &req.Key, req.Fence); err != nil {
			return err
		}
	}
	a, err := s.confirmed(ctx, call, func(a *answer) bool { return a.code != lost })
	return a.unlessLost(err)
}

func (a *answer) unlessLost(err error) error {
	if err == nil && a.code == lost {
		return storeapi.ErrLeaseLost
	}
	return err
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	call, err := s.completeCall(&req)
	if err != nil {
		return storeapi.Record{}, err
	}
	a, err := s.confirmed(ctx, call, func(a *answer) bool { return a.code != lost })
	return s.completed(ctx, &req, call.Args, a, err)
}

// completed reads the answer to a Complete with args. If the server refuses it, the work is
// completed without its answer: that it is done matters more.
func (s *Store) completed(ctx context.Context, req *storeapi.CompleteRequest, args []string, a answer, err error) (storeapi.Record, error) {
	var refused redisclient.Error
	if errors.As(err, &refused) && refused.Code() == "OOM" && req.Answer.Kept {
		small := *req
		small.Answer = storeapi.Answer{Codec: req.Answer.Codec, Size: int64(len(req.Answer.Body)), Digest: sha256.Sum256(req.Answer.Body)}
		return s.Complete(ctx, small)
	}
	if err := a.unlessLost(err); err != nil {
		return storeapi.Record{}, err
	}
	if a.code == ended {
		a.code, a.packed = done, endedRecord(&a, req, args[1])
	}
	rec, err := a.record(req.Key)
	if a.code == done && !s.o.Light { // it stored our body, and does not send it back
		rec.Answer.Body = bytes.Clone(req.Answer.Body)
	}
	return rec, err
}

// endedRecord returns the record that Complete has stored, without its body. head has the fields
// from the codec to the digest. The script returns the flags, the attempt, the creation time, its
// not-after, and the fields between the times and the answer.
func endedRecord(a *answer, req *storeapi.CompleteRequest, head string) []byte {
	const format, given = 1, 1 + 4 + 8 + 8
	p := a.packed
	if len(p) < given {
		return p // the parser reports the error
	}
	span := protocol.Span(req.Retention)
	b := append(make([]byte, 0, 80+len(p)-given+len(head)), format, byte(req.State), p[0], 0)
	b = append(append(b, p[1:5]...), holder(req.Fence, req.Owner)...)
	b = appendMicros(appendMicros(b, 0), a.now+span)
	b = appendMicros(append(b, p[5:13]...), a.now)
	b = appendMicros(append(b, p[13:21]...), span)
	return append(append(b, p[given:]...), head...)
}

// Release implements [storeapi.Store].
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	call, err := s.releaseCall(&req)
	if err != nil {
		return err
	}
	a, err := s.eval(ctx, call)
	return a.unlessLost(err)
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	call, err := s.call(lookup, &key, "0")
	if err != nil {
		return storeapi.Record{}, err
	}
	a, err := s.eval(ctx, call)
	if err != nil {
		return storeapi.Record{}, err
	}
	return a.record(key)
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	call, err := s.call(issue, &req.Key, string(req.Owner[:]), number(protocol.Span(req.Retention)))
	if err != nil {
		return 0, err
	}
	a, err := s.eval(ctx, call)
	return storeapi.Status(a.code), err
}
