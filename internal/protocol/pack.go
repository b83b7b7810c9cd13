package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// The packed form, version 1, for stores that keep one value for each key. All numbers are
// big-endian. docs/formats.md has the layout.
const (
	packVersion = 1
	headSize    = 40 // the part that decides who may run
	timesSize   = 40

	flagReexecute = 1 << 0
	flagIssued    = 1 << 1
	flagKept      = 1 << 2
	flagNilBody   = 1 << 3
	flagNilPrint  = 1 << 4
	flagNilBind   = 1 << 5
	flagDigest    = 1 << 6 // a digest of the answer follows its size
	flagsKnown    = 1<<7 - 1
)

// AppendBinary appends the packed form of r to b.
func (r *Row) AppendBinary(b []byte) ([]byte, error) {
	if len(r.Fingerprint) > 255 || len(r.Binding) > 255 || len(r.Cause) > 255 || len(r.Answer.Codec) > 255 || len(r.LastError) > 1<<16-1 {
		return nil, errors.New("retrysafe: a field of the record is too long to pack")
	}
	b = append(b, packVersion, byte(r.State), r.flags(), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Attempt)) //nolint:gosec // attempts do not reach 2^32
	b = binary.BigEndian.AppendUint64(b, uint64(r.Fence))
	b = append(b, r.Owner[:]...)
	for _, t := range []Micros{r.LeaseEnd, r.Expires, r.Created, r.Updated, r.NotAfter, r.Retention} {
		b = binary.BigEndian.AppendUint64(b, uint64(t)) //nolint:gosec // two's complement is the format
	}
	b = appendShort(b, r.Fingerprint)
	b = appendShort(b, r.Binding)
	b = appendShort(b, []byte(r.Cause))
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.LastError))) //nolint:gosec // checked above
	b = append(b, r.LastError...)
	at := len(b)
	b = r.AppendWorked(append(b, 0))
	b[at] = byte(len(b) - at - 1) //nolint:gosec // at most maxEarlier attempts of 12 bytes
	return append(r.appendAnswerHead(b), r.Answer.Body...), nil
}

func (r *Row) appendAnswerHead(b []byte) []byte {
	b = appendShort(b, []byte(r.Answer.Codec))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Answer.Size)) //nolint:gosec // two's complement is the format
	if r.hasDigest() {
		b = append(b, r.Answer.Digest[:]...)
	}
	return b
}

// AnswerHead returns the part of the packed form before the answer's body, and AnswerFlags the
// flags of the answer, for stores whose server assembles the record.
func (r *Row) AnswerHead() ([]byte, error) {
	if len(r.Answer.Codec) > 255 {
		return nil, errors.New("retrysafe: the name of the answer's codec is too long to pack")
	}
	return r.appendAnswerHead(nil), nil
}

// AnswerFlags returns the flags of the answer in the packed form.
func (r *Row) AnswerFlags() byte { return r.flags() & (flagKept | flagNilBody | flagDigest) }

func (r *Row) flags() (f byte) {
	for _, x := range []struct {
		set bool
		bit byte
	}{
		{r.OnDoubt == storeapi.Reexecute, flagReexecute},
		{r.Issued, flagIssued},
		{r.Answer.Kept, flagKept},
		{r.Answer.Body == nil, flagNilBody},
		{r.Fingerprint == nil, flagNilPrint},
		{r.Binding == nil, flagNilBind},
		{r.hasDigest(), flagDigest},
	} {
		if x.set {
			f |= x.bit
		}
	}
	return f
}

func (r *Row) hasDigest() bool { return r.Answer.Digest != [sha256.Size]byte{} }

func appendShort(b, s []byte) []byte { return append(append(b, byte(len(s))), s...) } //nolint:gosec // callers check

// ParseRow parses the packed form. The row refers to b, which must not be changed afterwards.
func ParseRow(b []byte) (Row, error) {
	if len(b) < headSize+timesSize {
		return Row{}, errors.New("retrysafe: packed record is cut")
	}
	if b[0] != packVersion {
		return Row{}, fmt.Errorf("retrysafe: packed record has format version %d; this build reads version %d", b[0], packVersion)
	}
	f := b[2]
	if b[1] == 0 || b[1] > byte(storeapi.StateReleased) || f&^byte(flagsKnown) != 0 || b[3] != 0 {
		return Row{}, errors.New("retrysafe: packed record has an unknown state or flag")
	}
	r := Row{State: storeapi.State(b[1]), OnDoubt: storeapi.Refuse, Issued: f&flagIssued != 0}
	if f&flagReexecute != 0 {
		r.OnDoubt = storeapi.Reexecute
	}
	r.Attempt = int(binary.BigEndian.Uint32(b[4:]))
	r.Fence = storeapi.Fence(binary.BigEndian.Uint64(b[8:]))
	copy(r.Owner[:], b[16:])
	for i, t := range []*Micros{&r.LeaseEnd, &r.Expires, &r.Created, &r.Updated, &r.NotAfter, &r.Retention} {
		*t = int64(binary.BigEndian.Uint64(b[32+8*i:])) //nolint:gosec // two's complement is the format
	}
	p := parser{rest: b[headSize+timesSize:]}
	r.Fingerprint = p.restoreNil(f&flagNilPrint != 0, p.readShort())
	r.Binding = p.restoreNil(f&flagNilBind != 0, p.readShort())
	r.Cause = string(p.readShort())
	r.LastError = string(p.readBytes(p.readLength(2)))
	if err := r.ParseWorked(p.readShort()); err != nil {
		return Row{}, err
	}
	r.Answer.Codec = string(p.readShort())
	r.Answer.Size = int64(p.readUint(8)) //nolint:gosec // two's complement is the format
	if f&flagDigest != 0 {
		copy(r.Answer.Digest[:], p.readBytes(len(r.Answer.Digest)))
		p.damaged = p.damaged || !r.hasDigest() // each record has a single packed form
	}
	r.Answer.Kept = f&flagKept != 0
	r.Answer.Body = p.restoreNil(f&flagNilBody != 0, p.readBytes(len(p.rest)))
	if p.damaged {
		return Row{}, errors.New("retrysafe: packed record is damaged: a length does not fit")
	}
	return r, nil
}

// parser takes fields from the front. After the first one that does not fit, bad is set and all
// fields are empty.
type parser struct {
	rest    []byte
	damaged bool
}

func (p *parser) readBytes(n int) []byte {
	if p.damaged || n > len(p.rest) {
		p.damaged = true
		return nil
	}
	out := p.rest[:n]
	p.rest = p.rest[n:]
	return out
}

func (p *parser) readUint(n int) (v uint64) {
	for _, c := range p.readBytes(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (p *parser) readShort() []byte { return p.readBytes(p.readLength(1)) }

// readLength reads a length of one or two bytes.
func (p *parser) readLength(n int) int { return int(p.readUint(n)) } //nolint:gosec // at most 65535

// restoreNil distinguishes nil from empty; a nil field with bytes means damage. Appending to the
// result does not change the bytes after it.
func (p *parser) restoreNil(isNil bool, field []byte) []byte {
	if isNil {
		p.damaged = p.damaged || len(field) > 0
		return nil
	}
	return field[:len(field):len(field)]
}
