package table

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Loaded is the input of a decision.
type Loaded struct {
	Row   protocol.Row
	Floor storeapi.Fence  // the largest fence of a removed record
	Now   protocol.Micros // the store's clock
}

// InsertedByCount reports whether a statement has inserted a row.
func InsertedByCount(r sql.Result) (bool, error) {
	n, err := r.RowsAffected()
	return n > 0, err
}

// InsertArgs returns the values of inserted.
func InsertArgs(key *storeapi.StoreKey, id RecordID, row *protocol.Row) []any {
	return append([]any{id[:], PartsOf(key)}, RowArgs(row)...)
}

// RowArgs returns the values of stored. Those of finished are all but the first two.
func RowArgs(r *protocol.Row) []any {
	var answer any // NULL for nil: some drivers turn a typed nil into an empty value
	if r.Answer.Body != nil {
		answer = r.Answer.Body
	}
	data := AppendData(make([]byte, 0, 96), r)
	return []any{r.Owner[:], int64(r.Fence), int64(r.State), r.LeaseEnd, r.Expires, r.Updated, data, answer} //nolint:gosec // fences stay below 2^53
}

// FinishArgs returns the arguments of FinishAttempt for the attempt of a row.
func FinishArgs(id RecordID, r *protocol.Row) []any {
	return append(RowArgs(r)[2:], id[:], r.Owner[:], int64(r.Fence)) //nolint:gosec // fences stay below 2^53
}

// RowScan receives the columns of selected and the answer after them.
type RowScan struct {
	r           protocol.Row
	state       uint8
	fence       int64
	owner, data []byte
}

// Columns returns where the columns go.
func (s *RowScan) Columns() []any {
	r := &s.r
	return []any{&s.owner, &s.fence, &s.state, &r.LeaseEnd, &r.Expires, &r.Updated, &s.data, &r.Answer.Body}
}

// ParseRow returns the row that was read, or an error if this package cannot have written it: no
// decision is based on a damaged row.
func (s *RowScan) ParseRow() (protocol.Row, error) {
	r := s.r
	if s.state == 0 {
		return protocol.Row{}, nil
	}
	r.State = storeapi.State(s.state)
	if r.State > storeapi.StateReleased || len(s.owner) != len(r.Owner) {
		return protocol.Row{}, fmt.Errorf("the record is damaged: state %d, owner of %d bytes; look at it by its id before you remove it",
			s.state, len(s.owner))
	}
	r.Fence = storeapi.Fence(s.fence) //nolint:gosec // fences stay below 2^53
	copy(r.Owner[:], s.owner)
	if err := parseData(&r, s.data); err != nil {
		return protocol.Row{}, err
	}
	return r, nil
}

// querier is a connection, a transaction or a pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// The data column has the fields of a record that no statement looks at. docs/formats.md has the
// layout. Numbers are varints of encoding/binary, and each variable field follows its length.
const (
	dataVersion = 1

	// in the order of AppendData
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

// AppendData appends the value of the data column.
func AppendData(b []byte, r *protocol.Row) []byte {
	hasDigest := r.Answer.Digest != [sha256.Size]byte{}
	var flags byte
	for bit, set := range []bool{
		r.OnDoubt == storeapi.Reexecute, r.Issued, r.Answer.Kept, r.Answer.Body == nil, r.Fingerprint == nil, r.Binding == nil, hasDigest,
	} {
		if set {
			flags |= 1 << bit
		}
	}
	b = append(b, dataVersion, flags)
	b = binary.AppendUvarint(b, uint64(r.Attempt)) //nolint:gosec // never negative
	b = binary.AppendVarint(b, r.Updated-r.Created)
	b = binary.AppendVarint(b, r.NotAfter)
	b = binary.AppendVarint(b, r.Retention)
	b = AppendField(b, r.Fingerprint)
	b = AppendField(b, r.Binding)
	b = AppendField(b, r.Cause)
	b = AppendField(b, r.LastError)
	b = AppendField(b, r.AppendWorked(nil))
	b = AppendField(b, r.Answer.Codec)
	b = binary.AppendVarint(b, r.Answer.Size)
	if hasDigest {
		b = append(b, r.Answer.Digest[:]...)
	}
	return b
}

// AppendField appends a field after its length.
func AppendField[T string | []byte](b []byte, field T) []byte {
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
	attempt := takeNumber(&p, binary.Uvarint)
	r.Attempt = int(attempt) //nolint:gosec // checked below
	r.Created = r.Updated - takeNumber(&p, binary.Varint)
	r.NotAfter, r.Retention = takeNumber(&p, binary.Varint), takeNumber(&p, binary.Varint)
	r.Fingerprint, r.Binding = p.takeCopy(flags&flagNilPrint != 0), p.takeCopy(flags&flagNilBind != 0)
	r.Cause, r.LastError = string(p.takeField()), string(p.takeField())
	worked := p.takeField()
	r.Answer.Codec = string(p.takeField())
	r.Answer.Size = takeNumber(&p, binary.Varint)
	if flags&flagDigest != 0 {
		p.bad = p.bad || len(p.rest) < sha256.Size
		p.rest = p.rest[copy(r.Answer.Digest[:], p.rest):]
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
	if len(worked) > 0 {
		return r.ParseWorked(worked)
	}
	return nil
}

// dataParser takes fields from the front. After the first one that does not fit, bad is set and all
// fields are empty.
type dataParser struct {
	rest []byte
	bad  bool
}

// takeNumber takes a number that read decodes.
func takeNumber[T int64 | uint64](p *dataParser, read func([]byte) (T, int)) T {
	v, n := read(p.rest)
	if n <= 0 {
		p.bad = true
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *dataParser) takeField() []byte {
	n := takeNumber(p, binary.Uvarint)
	if p.bad || n > uint64(len(p.rest)) {
		p.bad = true
		return nil
	}
	field := p.rest[:n]
	p.rest = p.rest[n:]
	return field
}

// takeCopy returns a copy of a field, or nil.
func (p *dataParser) takeCopy(null bool) []byte {
	field := p.takeField()
	if null {
		p.bad = p.bad || len(field) > 0
		return nil
	}
	return append([]byte{}, field...)
}

// RecordID is the primary key: the first half of the SHA-256 of a name. Its length does not depend
// on the name, and no collation affects it. Half a digest keeps rows and indexes short: to meet the
// record of another tenant, an attacker has to find a name with a given digest of 128 bits.
type RecordID [sha256.Size / 2]byte

// IDOf returns the id of the row with a name. A record has the text of its key as its name.
func IDOf(name []byte) RecordID {
	sum := sha256.Sum256(name)
	return RecordID(sum[:len(RecordID{})])
}

// The parts column has the parts of a key: namespace, layer, tenant, operation and id, each after
// its length. All records with the same first parts are a range of an index on the column.

// PartsOf returns the value of the parts column.
func PartsOf(k *storeapi.StoreKey) []byte {
	b := make([]byte, 0, len(k.Namespace)+len(k.Layer)+len(k.Tenant)+len(k.Operation)+len(k.ID)+10)
	for _, part := range []string{k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID} {
		b = AppendField(b, part)
	}
	return b
}

// ParseParts parses the parts column.
func ParseParts(b []byte) (k storeapi.StoreKey, err error) {
	p := dataParser{rest: b}
	for _, part := range []*string{&k.Namespace, &k.Layer, &k.Tenant, &k.Operation, &k.ID} {
		*part = string(p.takeField())
	}
	if p.bad || len(p.rest) > 0 {
		return storeapi.StoreKey{}, errors.New("the record is damaged: its parts column is cut or was changed")
	}
	return k, nil
}

// EndOfPrefix returns the first value that is greater than all values that begin with prefix; nil:
// there is none.
func EndOfPrefix(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for len(end) > 0 {
		if end[len(end)-1]++; end[len(end)-1] != 0 {
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}

// LoadRecord reads the record, and checks in the same statement whether this build may use the
// tables.
func (d *Database) LoadRecord(ctx context.Context, db sqlkit.Execer, query string, id RecordID) (Loaded, error) {
	here := d.Clock().UnixMicro()
	return d.ReadRecord(here, db.QueryRowContext(ctx, query, id[:]).Scan)
}

// ReadRecord returns the record of a row like that of LoadRow, unless scan fails, or this build may
// not use the tables. here is this machine's time from before the read; more is where the columns
// after the first three go.
func (d *Database) ReadRecord(here protocol.Micros, scan func(to ...any) error, more ...any) (l Loaded, err error) {
	var s struct {
		version int
		floor   int64
		now     sql.NullInt64
		RowScan
	}
	l.Now = here
	err = scan(append(append([]any{&s.version, &s.floor, &s.now}, more...), s.Columns()...)...)
	if err != nil || s.version != d.Statements.Load().SchemaVersion {
		return l, d.VersionError(s.version, err)
	}
	l.Now = d.ServerTime(s.now, here)
	l.Floor = storeapi.Fence(s.floor) //nolint:gosec // fences stay below 2^53
	l.Row, err = s.ParseRow()
	return l, err
}

// loadRecords reads the rows of a statement like LoadRows.
func (d *Database) loadRecords(ctx context.Context, w querier, query string, args ...any) (found map[RecordID]Loaded, absent Loaded, err error) {
	here := d.Clock().UnixMicro()
	rows, err := w.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, absent, err
	}
	defer rows.Close()
	found = make(map[RecordID]Loaded)
	migrated := false
	for rows.Next() {
		var id []byte
		l, err := d.ReadRecord(here, rows.Scan, &id)
		if err != nil {
			return nil, absent, err
		}
		migrated, absent = true, Loaded{Floor: l.Floor, Now: l.Now}
		if len(id) == len(RecordID{}) {
			found[RecordID(id)] = l
		}
	}
	if err := rows.Err(); err != nil {
		return nil, absent, err
	}
	if !migrated {
		return nil, absent, d.NotMigratedError()
	}
	return found, absent, nil
}

// ServerTime returns the database's time if it has sent one, else here, this machine's time from
// before the read.
func (d *Database) ServerTime(told sql.NullInt64, here protocol.Micros) protocol.Micros {
	if !told.Valid {
		return here
	}
	if d.Clock().UnixMicro()-here > Slack.Microseconds() {
		// the reply took long, perhaps because of a lock, so it says little about the clock
		return told.Int64
	}
	d.clockAhead.Store(told.Int64 - time.Now().UnixMicro())
	return told.Int64
}

// usualLease is used for a record that does not tell its lease.
const usualLease = 30 * time.Second

// ReportSkew reports a clock that was set back, or clocks that differ. Both make leases longer than
// they should be.
func (d *Database) ReportSkew(l *Loaded) {
	row := &l.Row
	if row.State == 0 || d.skewReported.Load() {
		return
	}
	lease := usualLease
	if row.State == storeapi.StateInProgress && row.LeaseEnd != 0 {
		lease = time.Duration(row.LeaseEnd-row.Updated) * time.Microsecond
	}
	ahead := time.Duration(row.Updated-l.Now) * time.Microsecond
	if ahead > lease/10 && d.skewReported.CompareAndSwap(false, true) {
		d.logger.Warn("sqlstore: a record was updated in the future of "+d.Backend.skewCause()+"; leases last longer by as much",
			"table", d.Table, "ahead", ahead)
	}
}
