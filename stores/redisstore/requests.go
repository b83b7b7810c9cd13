package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// newCall returns a call of a script on the key.
func (s *Store) newCall(script *redisclient.Script, key *storeapi.StoreKey, args ...string) (redisclient.Call, error) {
	name, err := s.recordName(key)
	return redisclient.Call{Script: script, Keys: []string{name}, Args: args, Join: s.joins}, err
}

// newUnfinishedCall returns a call of a script that changes the index of unfinished records too.
func (s *Store) newUnfinishedCall(script *redisclient.Script, key *storeapi.StoreKey, args ...string) (redisclient.Call, error) {
	call, err := s.newCall(script, key, args...)
	if index := s.unfinished.indexOf(call.Keys[0]); index != "" {
		call.Keys = append(call.Keys, index)
	}
	return call, err
}

func (s *Store) acquireCall(req *storeapi.AcquireRequest) (redisclient.Call, error) {
	if len(req.Fingerprint) > 255 || len(req.Binding) > 255 {
		return redisclient.Call{}, errors.New("redisstore: a fingerprint or binding has more than 255 bytes")
	}
	s.warnOfClocks(req.Lease)
	new8, behind := newRecordParts(req)
	var space [32]byte
	claim := appendMicros(append(append(space[:0], new8...), req.Owner[:]...), protocol.ToMicros(req.Lease))
	if req.Finish != nil {
		if !req.Finish.State.Finished() {
			return redisclient.Call{}, fmt.Errorf("redisstore: Acquire that finishes with state %v; use completed or failed", req.Finish.State)
		}
		row := protocol.FinishRow(req)
		packed, err := row.AppendBinary(nil)
		if err != nil {
			return redisclient.Call{}, err
		}
		return s.newUnfinishedCall(acquire, &req.Key, string(claim), behind, claimFlags(req), string(packed))
	}
	if more := claimFlags(req); more != "" {
		return s.newUnfinishedCall(acquire, &req.Key, string(claim), behind, more)
	}
	return s.newUnfinishedCall(acquire, &req.Key, string(claim), behind)
}

func (s *Store) extendCall(req *storeapi.ExtendRequest) (redisclient.Call, error) {
	who, lease, works := packHolder(req.Fence, req.Owner), formatInt(protocol.ToMicros(req.Lease)), ""
	if req.Works {
		works = "1"
	}
	switch {
	case req.Progress == nil && !req.Works:
		return s.newCall(extend, &req.Key, who, lease)
	case req.Progress == nil:
		return s.newCall(extend, &req.Key, who, lease, works)
	}
	row := protocol.Row{Answer: *req.Progress}
	head, err := row.AnswerHead()
	if err != nil {
		return redisclient.Call{}, err
	}
	return s.newCall(extend, &req.Key, who, lease, works, string([]byte{row.AnswerFlags()}), string(head), string(req.Progress.Body))
}

func (s *Store) completeCall(req *storeapi.CompleteRequest) (redisclient.Call, error) {
	if !req.State.Finished() {
		return redisclient.Call{}, fmt.Errorf("redisstore: Complete with state %v; use completed or failed", req.State)
	}
	row := protocol.Row{Answer: req.Answer}
	head, err := row.AnswerHead()
	if err != nil {
		return redisclient.Call{}, err
	}
	var how byte
	for bit, on := range [...]bool{s.o.Light, !req.Quiet && !s.o.Quiet, s.primaries.Need() > 0, req.Retention == 0} {
		if on {
			how |= 1 << bit
		}
	}
	var space [40]byte
	end := append(space[:0], packHolder(req.Fence, req.Owner)...)
	end = appendMicros(append(end, row.AnswerFlags(), byte(req.State), how), protocol.ToMicros(req.Retention))
	return s.newUnfinishedCall(complete, &req.Key, string(end), string(head), string(req.Answer.Body))
}

func (s *Store) releaseCall(req *storeapi.ReleaseRequest) (redisclient.Call, error) {
	doubt := "0"
	if req.InDoubt {
		doubt = "1"
	}
	cause, lastError := protocol.Clip(req.Cause, req.LastError)
	publish := "1"
	if req.Quiet || s.o.Quiet {
		publish = ""
	}
	return s.newUnfinishedCall(release, &req.Key, packHolder(req.Fence, req.Owner), packRetention(req.Retention), doubt, cause, lastError, publish)
}

// newRecordParts returns the beginning and the end of a new record for req. Fence, owner and times
// go between them.
func newRecordParts(req *storeapi.AcquireRequest) (new8, behind string) {
	row := protocol.Row{
		State: storeapi.StateInProgress, OnDoubt: req.OnDoubt, Attempt: 1, Fingerprint: req.Fingerprint, Binding: req.Binding,
		Retention: protocol.ToMicros(req.Retention),
	}
	if !req.NotAfter.IsZero() {
		row.NotAfter = req.NotAfter.UnixMicro()
	}
	b, _ := row.AppendBinary(make([]byte, 0, 192)) // the lengths were checked
	return string(b[:8]), string(b[64:])
}

// claimFlags is empty for a plain claim.
func claimFlags(req *storeapi.AcquireRequest) string {
	var flags byte
	if req.Force {
		flags |= 1
	}
	if req.MustBeIssued {
		flags |= 2
	}
	var fence string
	if req.IfFence != 0 {
		flags |= 4
		fence = packInt(int64(req.IfFence)) //nolint:gosec // two's complement is the format
	}
	if req.Asks {
		flags |= 8
	}
	if req.Finish != nil {
		flags |= 16
	}
	if flags == 0 {
		return ""
	}
	return string([]byte{flags}) + fence
}

// packHolder returns fence and owner in the format of a record.
func packHolder(f storeapi.Fence, o storeapi.Owner) string { return packInt(int64(f)) + string(o[:]) } //nolint:gosec // two's complement is the format

// packRetention is empty if the record's own retention applies.
func packRetention(d time.Duration) string {
	if d == 0 {
		return ""
	}
	n := protocol.ToMicros(d)
	return packInt(n) + formatInt(n)
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// packInt returns n in the format of a packed record.
func packInt(n int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)) //nolint:gosec // two's complement is the format
	return string(b[:])
}

func appendMicros(b []byte, n protocol.Micros) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // two's complement is the format
}

func parseMicros[B string | []byte](b B) protocol.Micros {
	return int64(binary.BigEndian.Uint64([]byte(b[:8]))) //nolint:gosec // two's complement is the format
}
