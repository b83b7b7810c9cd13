package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/storeapi"
)

// The data column has the fields of a record that no statement looks at. docs/formats.md has the
// layout. Numbers are varints of encoding/binary, and each variable field follows its length.
const (
	dataVersion = 1

	flagReexecute = 1 << 0
	flagIssued    = 1 << 1
	flagKept      = 1 << 2 // the answer is stored
	flagNilBody   = 1 << 3 // nil differs from empty, and some drivers return both alike
	flagNilPrint  = 1 << 4
	flagNilBind   = 1 << 5
	flagDigest    = 1 << 6 // a digest of the answer follows its size
	flagsKnown    = 1<<7 - 1
)

// errData means that the data column was not written by this package.
var errData = errors.New("the record is damaged: its data column is cut or was changed; look at it by its id before you remove it")

// appendData appends the value of the data column.
func appendData(b []byte, r *protocol.Row) []byte {
	hasDigest := r.Answer.Digest != [sha256.Size]byte{}
	flags := bit(r.OnDoubt == storeapi.Reexecute, flagReexecute) | bit(r.Issued, flagIssued) | bit(r.Answer.Kept, flagKept) |
		bit(r.Answer.Body == nil, flagNilBody) | bit(r.Fingerprint == nil, flagNilPrint) | bit(r.Binding == nil, flagNilBind) |
		bit(hasDigest, flagDigest)
	b = append(b, dataVersion, flags)
	b = binary.AppendUvarint(b, uint64(r.Attempt)) //nolint:gosec // never negative
	b = binary.AppendVarint(b, r.Updated-r.Created)
	b = binary.AppendVarint(b, r.NotAfter)
	b = binary.AppendVarint(b, r.Retention)
	b = appendField(b, r.Fingerprint)
	b = appendField(b, r.Binding)
	b = appendField(b, r.Cause)
	b = appendField(b, r.LastError)
	b = appendField(b, r.AppendWorked(nil))
	b = appendField(b, r.Answer.Codec)
	b = binary.AppendVarint(b, r.Answer.Size)
	if hasDigest {
		b = append(b, r.Answer.Digest[:]...)
	}
	return b
}

func bit(set bool, b byte) byte {
	if set {
		return b
	}
	return 0
}

func appendField[T string | []byte](b []byte, field T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}

// parseData parses the data column into r, whose columns of their own and whose answer's body were
// set before. r does not refer to data afterwards.
func parseData(r *protocol.Row, data []byte) error {
	if len(data) > 0 && data[0] != dataVersion {
		return fmt.Errorf("the record has format version %d, and this build reads version %d", data[0], dataVersion)
	}
	if len(data) < 2 || data[1]&^flagsKnown != 0 {
		return errData
	}
	flags := data[1]
	r.OnDoubt = storeapi.Refuse
	if flags&flagReexecute != 0 {
		r.OnDoubt = storeapi.Reexecute
	}
	r.Issued, r.Answer.Kept = flags&flagIssued != 0, flags&flagKept != 0
	p := dataParser{rest: data[2:]}
	attempt := p.uvarint()
	r.Attempt = int(attempt) //nolint:gosec // checked below
	r.Created = r.Updated - p.varint()
	r.NotAfter, r.Retention = p.varint(), p.varint()
	r.Fingerprint, r.Binding = p.bytes(flags&flagNilPrint != 0), p.bytes(flags&flagNilBind != 0)
	r.Cause, r.LastError = string(p.field()), string(p.field())
	worked := p.field()
	r.Answer.Codec = string(p.field())
	r.Answer.Size = p.varint()
	if flags&flagDigest != 0 {
		copy(r.Answer.Digest[:], p.take(sha256.Size))
	}
	if p.bad || len(p.rest) > 0 || attempt > 1<<32 {
		return errData
	}
	switch {
	case flags&flagNilBody != 0:
		r.Answer.Body = nil
	case r.Answer.Body == nil:
		r.Answer.Body = []byte{}
	}
	return r.ParseWorked(worked)
}

// dataParser takes fields from the front. After the first one that does not fit, bad is set and all
// fields are empty.
type dataParser struct {
	rest []byte
	bad  bool
}

func (p *dataParser) take(n uint64) []byte {
	if p.bad || n > uint64(len(p.rest)) {
		p.bad = true
		return nil
	}
	got := p.rest[:n]
	p.rest = p.rest[n:]
	return got
}

func (p *dataParser) uvarint() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.bad = true
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *dataParser) varint() int64 {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.bad = true
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *dataParser) field() []byte { return p.take(p.uvarint()) }

// bytes returns a copy of a field, or nil.
func (p *dataParser) bytes(null bool) []byte {
	field := p.field()
	if null {
		p.bad = p.bad || len(field) > 0
		return nil
	}
	return append([]byte{}, field...)
}
