package redisstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
)

// What a script answers beside a retrysafe.Status.
const (
	fresh = 99  // won, by the first call for the key: the record is what was asked for
	lost  = 100 // the record is not the caller's
	late  = 101 // NotAfter has passed
	done  = 102
)

// answer is what a script says: a number, the server's time in microseconds, and the packed record as far as the script gives it.
type answer struct {
	code   byte
	now    protocol.Micros
	packed string
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
		return answer{text[0], micros(text[1:]), text[9:]}, nil
	}
	return answer{}, errors.New("redisstore: the server's reply is not that of the script; is there a proxy in between that changes replies?")
}

// record reads what the script gave; nothing is an absent record.
func (a *answer) record(key retrysafe.StoreKey) (retrysafe.Record, error) {
	var row protocol.Row
	if a.packed != "" {
		var err error
		if row, err = protocol.ParseRow([]byte(a.packed)); err != nil {
			return retrysafe.Record{}, err
		}
	}
	return row.Record(key, a.now), nil
}

// Acquire implements [retrysafe.Store].
func (s *Store) Acquire(ctx context.Context, req retrysafe.AcquireRequest) (retrysafe.Acquired, error) {
	call, err := s.acquireCall(&req)
	if err != nil {
		return retrysafe.Acquired{}, err
	}
	a, err := s.confirmed(ctx, call, won)
	return a.acquired(&req, call.Args, err)
}

// acquired reads the answer to what was asked with args.
func (a *answer) acquired(req *retrysafe.AcquireRequest, args []string, err error) (retrysafe.Acquired, error) {
	if err != nil {
		return retrysafe.Acquired{}, err
	}
	if a.code == late {
		return retrysafe.Acquired{}, retrysafe.ErrTooLate
	}
	if a.code == fresh {
		new8, owner, behind := args[0], args[1], args[5]
		now8 := bytes8(a.now)
		a.code, a.packed = byte(retrysafe.Won), new8+now8+owner+bytes8(a.now+protocol.Span(req.Lease))+a.packed+now8+now8+behind
	}
	rec, err := a.record(req.Key)
	return retrysafe.Acquired{Status: retrysafe.Status(a.code), Record: rec}, err
}

// Extend implements [retrysafe.Store].
func (s *Store) Extend(ctx context.Context, req retrysafe.ExtendRequest) error {
	call, err := s.extendCall(&req)
	if err != nil {
		return err
	}
	a, err := s.eval(ctx, call)
	return a.unlessLost(err)
}

func (a *answer) unlessLost(err error) error {
	if err == nil && a.code == lost {
		return retrysafe.ErrLeaseLost
	}
	return err
}

// Complete implements [retrysafe.Store].
func (s *Store) Complete(ctx context.Context, req retrysafe.CompleteRequest) (retrysafe.Record, error) {
	call, err := s.completeCall(&req)
	if err != nil {
		return retrysafe.Record{}, err
	}
	a, err := s.confirmed(ctx, call, func(a *answer) bool { return a.code != lost })
	return s.completed(ctx, &req, a, err)
}

// completed reads the answer to a Complete. Where the server refuses what it should take, the work is completed without its answer: that it
// is done matters more.
func (s *Store) completed(ctx context.Context, req *retrysafe.CompleteRequest, a answer, err error) (retrysafe.Record, error) {
	var refused redisclient.Error
	if errors.As(err, &refused) && refused.Code() == "OOM" && req.Answer.Kept {
		small := *req
		small.Answer = retrysafe.Answer{Codec: req.Answer.Codec, Size: int64(len(req.Answer.Body)), Digest: sha256.Sum256(req.Answer.Body)}
		return s.Complete(ctx, small)
	}
	if err := a.unlessLost(err); err != nil {
		return retrysafe.Record{}, err
	}
	rec, err := a.record(req.Key)
	if a.code == done && s.light == "" { // it kept ours, and does not send it back
		rec.Answer.Body = bytes.Clone(req.Answer.Body)
	}
	return rec, err
}

// Release implements [retrysafe.Store].
func (s *Store) Release(ctx context.Context, req retrysafe.ReleaseRequest) error {
	call, err := s.releaseCall(&req)
	if err != nil {
		return err
	}
	a, err := s.eval(ctx, call)
	return a.unlessLost(err)
}

// Lookup implements [retrysafe.Store].
func (s *Store) Lookup(ctx context.Context, key retrysafe.StoreKey) (retrysafe.Record, error) {
	call, err := s.call(lookup, &key, "0")
	if err != nil {
		return retrysafe.Record{}, err
	}
	a, err := s.eval(ctx, call)
	if err != nil {
		return retrysafe.Record{}, err
	}
	return a.record(key)
}

// Issue implements [retrysafe.Issuer].
func (s *Store) Issue(ctx context.Context, req retrysafe.IssueRequest) (retrysafe.Status, error) {
	call, err := s.call(issue, &req.Key, string(req.Owner[:]), number(protocol.Span(req.Retention)))
	if err != nil {
		return 0, err
	}
	a, err := s.eval(ctx, call)
	return retrysafe.Status(a.code), err
}
