package redisstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	if text, ok := r.Value.(string); ok && len(text) >= 9 {
		return answer{text[0], micros(text[1:]), text[9:]}, nil
	}
	return answer{}, errReply
}

var errReply = errors.New("redisstore: the server's reply is not that of the script; is there a proxy in between that changes replies?")

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
	new8, behind := opening(&req)
	var notAfter protocol.Micros
	if !req.NotAfter.IsZero() {
		notAfter = req.NotAfter.UnixMicro()
	}
	owner, lease := string(req.Owner[:]), protocol.Span(req.Lease)
	a, err := s.confirmed(ctx, acquire, &req.Key, won, new8, owner, number(lease), number(notAfter), number(protocol.Span(req.Retention)),
		behind, unusual(&req))
	if err != nil {
		return retrysafe.Acquired{}, err
	}
	if a.code == late {
		return retrysafe.Acquired{}, retrysafe.ErrTooLate
	}
	if a.code == fresh {
		now8 := bytes8(a.now)
		a.code, a.packed = byte(retrysafe.Won), new8+now8+owner+bytes8(a.now+lease)+a.packed+now8+now8+behind
	}
	rec, err := a.record(req.Key)
	return retrysafe.Acquired{Status: retrysafe.Status(a.code), Record: rec}, err
}

// Extend implements [retrysafe.Store].
func (s *Store) Extend(ctx context.Context, req retrysafe.ExtendRequest) error {
	a, err := s.eval(ctx, extend, &req.Key, holder(req.Fence, req.Owner), number(protocol.Span(req.Lease)))
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
	confirm := ""
	if s.need() > 0 {
		confirm = "1"
	}
	row := protocol.Row{Answer: *ans}
	head, err := row.AnswerHead()
	if err != nil {
		return retrysafe.Record{}, err
	}
	a, err := s.confirmed(ctx, complete, &req.Key, func(a *answer) bool { return a.code != lost }, holder(req.Fence, req.Owner),
		string([]byte{row.AnswerFlags(), byte(req.State)}), string(head), string(ans.Body), retention(req.Retention), s.light, confirm, s.loud)
	if err := a.unlessLost(err); err != nil {
		return retrysafe.Record{}, err
	}
	rec, err := a.record(req.Key)
	if a.code == done && s.light == "" { // it kept ours, and does not send it back
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
	cause, lastError := protocol.Clip(req.Cause, req.LastError)
	a, err := s.eval(ctx, release, &req.Key, holder(req.Fence, req.Owner), retention(req.Retention), doubt, cause, lastError, s.loud)
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
	return retrysafe.Status(a.code), err
}

// opening is the beginning and the end of a record that begins with req; between them stand fence, owner and times.
func opening(req *retrysafe.AcquireRequest) (new8, behind string) {
	row := protocol.Row{
		State: retrysafe.StateInProgress, OnDoubt: req.OnDoubt, Attempt: 1, Fingerprint: req.Fingerprint, Binding: req.Binding,
		Retention: protocol.Span(req.Retention),
	}
	if !req.NotAfter.IsZero() {
		row.NotAfter = req.NotAfter.UnixMicro()
	}
	b, _ := row.AppendBinary(make([]byte, 0, 192)) // the lengths were looked at
	return string(b[:8]), string(b[64:])
}

// unusual is empty for a plain claim.
func unusual(req *retrysafe.AcquireRequest) string {
	var flags byte
	if req.Force {
		flags |= 1
	}
	if req.MustBeIssued {
		flags |= 2
	}
	switch {
	case req.IfFence != 0:
		return string([]byte{flags}) + bytes8(int64(req.IfFence)) //nolint:gosec // two's complement is the format
	case flags != 0:
		return string([]byte{flags})
	}
	return ""
}

// holder is fence and owner as they stand in a record.
func holder(f retrysafe.Fence, o retrysafe.Owner) string { return bytes8(int64(f)) + string(o[:]) } //nolint:gosec // two's complement is the format

// retention is empty where the record's own counts.
func retention(d time.Duration) string {
	if d == 0 {
		return ""
	}
	n := protocol.Span(d)
	return bytes8(n) + number(n)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// bytes8 is n as it stands in a packed record.
func bytes8(n int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)) //nolint:gosec // two's complement is the format
	return string(b[:])
}

func micros(b string) protocol.Micros {
	return int64(binary.BigEndian.Uint64([]byte(b[:8]))) //nolint:gosec // two's complement is the format
}
