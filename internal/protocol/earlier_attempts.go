package protocol

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// maxEarlier is how many earlier attempts a record keeps.
const maxEarlier = 16

// The format of a record's list of attempts that may have worked: nothing, or a byte of flags, the
// time when a doubt began, and 12 bytes for each earlier attempt.
const (
	workedAsks  = 1 << 0
	workedCut   = 1 << 1
	workedSince = 1 << 2 // the time follows, in 8 bytes
	workedSize  = 12
)

var errWorked = errors.New("retrysafe: the record is damaged: its list of earlier attempts has a length, time or flag that does not exist")

// mayHaveWorked reports whether the last attempt of an unfinished record may have had an effect.
// Under Refuse a key is released only if certainly nothing was done.
func (r *Row) mayHaveWorked() bool {
	return !r.Asks && (r.State == storeapi.StateInProgress || r.State == storeapi.StateReleased && r.OnDoubt == storeapi.Reexecute)
}

// addEarlier adds attempts that are not in the list yet; the oldest ones are dropped.
func (r *Row) addEarlier(worked ...storeapi.Worked) {
	for _, w := range worked {
		if slices.ContainsFunc(r.Earlier, func(e storeapi.Worked) bool { return e.Fence == w.Fence }) {
			continue
		}
		r.Earlier = append(slices.Clip(r.Earlier), w) // another row may share the list
		if len(r.Earlier) > maxEarlier {
			r.Earlier, r.EarlierCut = r.Earlier[1:], true
		}
	}
}

// AppendWorked appends the record's list of attempts that may have worked. For most records that is
// nothing.
func (r *Row) AppendWorked(b []byte) []byte {
	var flags byte
	if r.Asks {
		flags |= workedAsks
	}
	if r.EarlierCut {
		flags |= workedCut
	}
	if r.DoubtBegan != 0 {
		flags |= workedSince
	}
	if flags == 0 && len(r.Earlier) == 0 {
		return b
	}
	b = append(b, flags)
	if r.DoubtBegan != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(r.DoubtBegan)) //nolint:gosec // two's complement is the format
	}
	return AppendEarlier(b, r.Earlier)
}

// AppendEarlier appends attempts.
func AppendEarlier(b []byte, all []storeapi.Worked) []byte {
	for _, w := range all {
		b = binary.BigEndian.AppendUint32(b, uint32(w.Attempt)) //nolint:gosec // attempts do not reach 2^32
		b = binary.BigEndian.AppendUint64(b, uint64(w.Fence))
	}
	return b
}

// ParseWorked parses what AppendWorked has written.
func (r *Row) ParseWorked(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	flags, rest := b[0], b[1:]
	if flags&workedSince != 0 {
		if len(rest) < 8 {
			return errWorked
		}
		r.DoubtBegan = int64(binary.BigEndian.Uint64(rest)) //nolint:gosec // two's complement is the format
		if rest = rest[8:]; r.DoubtBegan == 0 {
			return errWorked
		}
	}
	n := len(rest) / workedSize
	if flags&^(workedAsks|workedCut|workedSince) != 0 || len(rest)%workedSize != 0 || n > maxEarlier || flags == 0 && n == 0 {
		return errWorked
	}
	r.Asks, r.EarlierCut = flags&workedAsks != 0, flags&workedCut != 0
	for ; len(rest) > 0; rest = rest[workedSize:] {
		r.Earlier = append(r.Earlier, storeapi.Worked{
			Attempt: int(binary.BigEndian.Uint32(rest)), Fence: storeapi.Fence(binary.BigEndian.Uint64(rest[4:])),
		})
	}
	return nil
}
