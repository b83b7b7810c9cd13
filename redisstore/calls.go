package redisstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
)

// What a script answers beside a retrysafe.Status.
const (
	done = 1
	lost = 100 // the record is not the caller's
	late = 101 // NotAfter has passed
)

// answer is what a script says: a number, the server's time in microseconds, and the packed record as far as the script gives it.
type answer struct {
	code   int64
	now    protocol.Micros
	packed string
}

// eval runs a script on the key.
func (s *Store) eval(ctx context.Context, script *redisclient.Script, key *retrysafe.StoreKey, args ...string) (answer, error) {
	call, err := s.call(script, key, args...)
	if err != nil {
		return answer{}, err
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	return s.read(s.client.Eval(ctx, call))
}

func (s *Store) call(script *redisclient.Script, key *retrysafe.StoreKey, args ...string) (redisclient.Call, error) {
	name, err := s.name(key)
	return redisclient.Call{Script: script, Keys: []string{name}, Args: args}, err
}

func (s *Store) read(r redisclient.Reply) (answer, error) {
	if r.Err != nil {
		return answer{}, refusal(r.Err)
	}
	parts, ok := r.Value.([]any)
	if ok && len(parts) == 3 {
		code, isCode := parts[0].(int64)
		now, isNow := parts[1].(string)
		packed, isPacked := parts[2].(string)
		at, err := strconv.ParseInt(now, 10, 64)
		if isCode && isNow && isPacked && err == nil {
			return answer{code, at, packed}, nil
		}
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
	if len(req.Fingerprint) > 255 || len(req.Binding) > 255 {
		return retrysafe.Acquired{}, errors.New("redisstore: a fingerprint or binding has more than 255 bytes")
	}
	iffence, flags := "", 0
	if req.IfFence != 0 {
		iffence = bytes8(int64(req.IfFence)) //nolint:gosec // two's complement is the format
	}
	for bit, set := range []bool{req.Force, req.MustBeIssued, req.Fingerprint == nil, req.Binding == nil} {
		if set {
			flags |= 1 << bit
		}
	}
	var notAfter protocol.Micros
	if !req.NotAfter.IsZero() {
		notAfter = req.NotAfter.UnixMicro()
	}
	reexecute := "0"
	if req.OnDoubt == retrysafe.Reexecute {
		reexecute = "1"
	}
	retention := protocol.Span(req.Retention)
	a, err := s.claim(ctx, &req.Key, string(req.Owner[:]), string(req.Fingerprint), string(req.Binding), number(protocol.Span(req.Lease)),
		number(retention), bytes8(retention), number(notAfter), bytes8(notAfter), reexecute, iffence, strconv.Itoa(flags))
	switch {
	case err != nil:
		return retrysafe.Acquired{}, err
	case a.code == late:
		return retrysafe.Acquired{}, retrysafe.ErrTooLate
	}
	rec, err := a.record(req.Key)
	return retrysafe.Acquired{Status: retrysafe.Status(a.code), Record: rec}, err //nolint:gosec // a status is a small number
}

// Extend implements [retrysafe.Store].
func (s *Store) Extend(ctx context.Context, req retrysafe.ExtendRequest) error {
	a, err := s.eval(ctx, extend, &req.Key, string(req.Owner[:]), bytes8(int64(req.Fence)), number(protocol.Span(req.Lease))) //nolint:gosec // see above
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
	if !req.State.Finished() {
		return retrysafe.Record{}, fmt.Errorf("redisstore: Complete with state %v; use completed or failed", req.State)
	}
	rec, err := s.complete(ctx, &req, &req.Answer)
	var refused redisclient.Error
	if errors.As(err, &refused) && refused.Code() == "OOM" && req.Answer.Kept {
		// The server refuses what it should take; that the work is done matters more than its answer.
		small := retrysafe.Answer{Codec: req.Answer.Codec, Size: int64(len(req.Answer.Body)), Digest: sha256.Sum256(req.Answer.Body)}
		return s.complete(ctx, &req, &small)
	}
	return rec, err
}

func (s *Store) complete(ctx context.Context, req *retrysafe.CompleteRequest, ans *retrysafe.Answer) (retrysafe.Record, error) {
	row := protocol.Row{Answer: *ans}
	head, err := row.AnswerHead()
	if err != nil {
		return retrysafe.Record{}, err
	}
	span, span8 := retentionArgs(req.Retention)
	a, err := s.confirmed(ctx, complete, &req.Key, func(a *answer) bool { return a.code != lost }, string(req.Owner[:]), bytes8(int64(req.Fence)), strconv.Itoa(int(req.State)), span, span8, //nolint:gosec // see above
		strconv.Itoa(int(row.AnswerFlags())), string(head), string(ans.Body))
	if err := a.unlessLost(err); err != nil {
		return retrysafe.Record{}, err
	}
	rec, err := a.record(req.Key)
	if a.code == done { // it kept ours, and does not send it back
		rec.Answer.Body = bytes.Clone(ans.Body)
	}
	return rec, err
}

// Release implements [retrysafe.Store].
func (s *Store) Release(ctx context.Context, req retrysafe.ReleaseRequest) error {
	doubt := "0"
	if req.InDoubt {
		doubt = "1"
	}
	span, span8 := retentionArgs(req.Retention)
	cause, lastError := protocol.Clip(req.Cause, req.LastError)
	a, err := s.eval(ctx, release, &req.Key, string(req.Owner[:]), bytes8(int64(req.Fence)), span, span8, doubt, cause, lastError) //nolint:gosec // see above
	return a.unlessLost(err)
}

// Lookup implements [retrysafe.Store].
func (s *Store) Lookup(ctx context.Context, key retrysafe.StoreKey) (retrysafe.Record, error) {
	a, err := s.eval(ctx, lookup, &key, "0")
	if err != nil {
		return retrysafe.Record{}, err
	}
	return a.record(key)
}

// Issue implements [retrysafe.Issuer].
func (s *Store) Issue(ctx context.Context, req retrysafe.IssueRequest) (retrysafe.Status, error) {
	a, err := s.eval(ctx, issue, &req.Key, string(req.Owner[:]), number(protocol.Span(req.Retention)))
	return retrysafe.Status(a.code), err //nolint:gosec // a status is a small number
}

// retentionArgs are empty where the record's own counts.
func retentionArgs(d time.Duration) (span, span8 string) {
	if d == 0 {
		return "", ""
	}
	n := protocol.Span(d)
	return number(n), bytes8(n)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// bytes8 is n as it stands in a packed record.
func bytes8(n int64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (56 - 8*i)) //nolint:gosec // one byte
	}
	return string(b[:])
}
