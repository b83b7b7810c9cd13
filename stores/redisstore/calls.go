package redisstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Answers of scripts in addition to the values of storeapi.Status.
const (
	// codeEnded: completed, and the caller builds the record from its request and what the script
	// returns
	codeEnded = 98
	codeFresh = 99  // won by the first call for the key: the record is what was requested
	codeLost  = 100 // the record belongs to another caller
	codeLate  = 101 // NotAfter has passed
	codeDone  = 102
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
	return s.readReply(s.client.Eval(ctx, call))
}

func (s *Store) readReply(r redisclient.Reply) (answer, error) {
	if r.Err != nil {
		return answer{}, explainRefusal(r.Err)
	}
	if text, ok := r.Value.(string); ok && len(text) >= 9 {
		return answer{text[0], parseMicros(text[1:]), []byte(text[9:])}, nil
	}
	return answer{}, errReply
}

var errReply = errors.New("redisstore: the server's reply is not that of the script; is there a proxy in between that changes replies?")

// parseRecord parses the packed record; empty means that there is none.
func (a *answer) parseRecord(key storeapi.StoreKey) (storeapi.Record, error) {
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
	a, err := s.evalConfirmed(ctx, call, isGranted)
	if got, ok := s.finishedDespiteOOM(ctx, &req, err); ok {
		return got, nil
	}
	return a.readAcquired(&req, call.Args, err)
}

// finishedDespiteOOM returns the answer of a finished record while the server refuses writes
// because its memory is full.
func (s *Store) finishedDespiteOOM(ctx context.Context, req *storeapi.AcquireRequest, err error) (got storeapi.Acquired, ok bool) {
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

// readAcquired reads the answer to a call with args.
func (a *answer) readAcquired(req *storeapi.AcquireRequest, args []string, err error) (storeapi.Acquired, error) {
	if err != nil {
		return storeapi.Acquired{}, err
	}
	if a.code == codeLate {
		return storeapi.Acquired{}, storeapi.ErrTooLate
	}
	if a.code == codeFresh {
		a.code, a.packed = byte(storeapi.StatusAcquired), freshRecord(a, args[0][:8], args[0][8:24], protocol.ToMicros(req.Lease), args[1])
	}
	rec, err := a.parseRecord(req.Key)
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
		return a.leaseError(err)
	}
	if req.Progress != nil {
		if err := s.addToIndex(ctx, &req.Key, req.Fence); err != nil {
			return err
		}
	}
	a, err := s.evalConfirmed(ctx, call, func(a *answer) bool { return a.code != codeLost })
	return a.leaseError(err)
}

func (a *answer) leaseError(err error) error {
	if err == nil && a.code == codeLost {
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
	a, err := s.evalConfirmed(ctx, call, func(a *answer) bool { return a.code != codeLost })
	return s.readCompleted(ctx, &req, call.Args, a, err)
}

// readCompleted reads the answer to a Complete with args. If the server refuses it, the work is
// completed without its answer: that it is done matters more.
func (s *Store) readCompleted(ctx context.Context, req *storeapi.CompleteRequest, args []string, a answer, err error) (storeapi.Record, error) {
	var refused redisclient.Error
	if errors.As(err, &refused) && refused.Code() == "OOM" && req.Answer.Kept {
		small := *req
		small.Answer = storeapi.Answer{Codec: req.Answer.Codec, Size: int64(len(req.Answer.Body)), Digest: sha256.Sum256(req.Answer.Body)}
		return s.Complete(ctx, small)
	}
	if err := a.leaseError(err); err != nil {
		return storeapi.Record{}, err
	}
	if a.code == codeEnded {
		a.code, a.packed = codeDone, endedRecord(&a, req, args[1])
	}
	rec, err := a.parseRecord(req.Key)
	if a.code == codeDone && !s.o.Light { // it stored our body, and does not send it back
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
	span := protocol.ToMicros(req.Retention)
	b := append(make([]byte, 0, 80+len(p)-given+len(head)), format, byte(req.State), p[0], 0)
	b = append(append(b, p[1:5]...), packHolder(req.Fence, req.Owner)...)
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
	return a.leaseError(err)
}

// ForgetAnswer implements [storeapi.Forgetter].
func (s *Store) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	call, err := s.newCall(forget, &req.Key, packInt(int64(req.Fence))) //nolint:gosec // two's complement is the format
	if err != nil {
		return err
	}
	a, err := s.evalConfirmed(ctx, call, func(a *answer) bool { return a.code == codeDone })
	switch {
	case err != nil:
		return err
	case a.code == codeDone:
		return nil
	}
	return storeapi.Status(a.code).Err()
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	call, err := s.newCall(lookup, &key, "0")
	if err != nil {
		return storeapi.Record{}, err
	}
	a, err := s.eval(ctx, call)
	if err != nil {
		return storeapi.Record{}, err
	}
	return a.parseRecord(key)
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	call, err := s.newCall(issue, &req.Key, string(req.Owner[:]), formatInt(protocol.ToMicros(req.Retention)))
	if err != nil {
		return 0, err
	}
	a, err := s.eval(ctx, call)
	return storeapi.Status(a.code), err
}
