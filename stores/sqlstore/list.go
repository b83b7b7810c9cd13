package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// List implements [storeapi.Lister].
//
// With [Options].Listing, the records of a tenant are in the order of their keys, and only they are
// read. Otherwise records are in the order of their primary keys: meaningless to people, but
// stable. Then a listing by tenant or operation reads all records, up to 20 000 for one page, which
// can have fewer records than the limit, or none.
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (page storeapi.Page, err error) {
	if err := s.checkCall(ctx); err != nil {
		return page, err
	}
	l, err := s.newListing(&req)
	if err != nil {
		return page, err
	}
	err = s.db.Backend.ReadTables(ctx, table.AnyRows, func(ctx context.Context, db sqlkit.Execer) error {
		// LoadRecord checks the version, as in any other call; there is no record with a zero id.
		now, err := s.db.LoadRecord(ctx, db, s.db.Statements.Load().LoadRow, table.RecordID{})
		if err != nil {
			return err
		}
		page, err = l.readPage(ctx, db, now.Now)
		page.Scans = l.scansAll()
		return err
	})
	return page, s.db.CallerError("list", err)
}

// listing is one call of List.
type listing struct {
	store *Store
	req   *storeapi.ListRequest
	limit int
	// column gives the order, and begin is the last page's last value of it. The records of a
	// tenant are in the order of the column parts, with all values before end. Others are in that
	// of id.
	column     string
	begin, end []byte
}

func (s *Store) newListing(req *storeapi.ListRequest) (*listing, error) {
	// begin is not nil, which would be NULL.
	l := &listing{store: s, req: req, limit: min(req.Limit, 1000), column: "id", begin: []byte{}}
	if l.limit <= 0 {
		l.limit = 100
	}
	if s.listing && req.Namespace != "" && req.Layer != "" && req.Tenant != "" && !req.InDoubt {
		prefix := prefixOf(req)
		// the prefix is shorter than each of its keys
		l.column, l.begin, l.end = "parts", prefix, table.EndOfPrefix(prefix)
	}
	if req.After == "" {
		return l, nil
	}
	column, place, _ := strings.Cut(req.After, ":")
	from, err := hex.DecodeString(place)
	if err != nil || column != l.column || l.column == "id" && len(from) != len(table.RecordID{}) || !bytes.HasPrefix(from, l.begin) {
		return nil, errAfter
	}
	l.begin = from
	return l, nil
}

var errAfter = errors.New("sqlstore: list: After is not what this store has returned for the same request; leave it empty for the first page, and then use Page.Next")

// prefixOf returns the beginning of the column parts for the parts that req names, up to the first
// one that it leaves open.
func prefixOf(req *storeapi.ListRequest) (prefix []byte) {
	for _, part := range []string{req.Namespace, req.Layer, req.Tenant, req.Operation} {
		if part == "" {
			break
		}
		prefix = table.AppendField(prefix, part)
	}
	return prefix
}

// readPage reads records part by part until the page is full, or enough were read for one page.
func (l *listing) readPage(ctx context.Context, db sqlkit.Execer, now protocol.Micros) (page storeapi.Page, err error) {
	from := l.begin
	// The first part is small, as it is often enough.
	for size := 1000; ; size = maxRead {
		to, read, err := l.findPart(ctx, db, from, size)
		if err != nil {
			return storeapi.Page{}, err
		}
		last, full, err := l.readPart(ctx, db, now, from, to, &page)
		if err != nil {
			return storeapi.Page{}, err
		}
		if !full {
			page.Read += read
			last = to
		}
		page.Read = max(page.Read, len(page.Records)+len(page.Unreadable))
		if last == nil {
			return page, nil // there are no more
		}
		if full || page.Read >= maxRead {
			page.Next = l.column + ":" + hex.EncodeToString(last)
			return page, nil
		}
		from = last
	}
}

// readPart adds the selected records of a part to the page. full means that there are others for
// the next page, which begins after last.
func (l *listing) readPart(ctx context.Context, db sqlkit.Execer, now protocol.Micros, from, to []byte, page *storeapi.Page) (last []byte, full bool, err error) {
	// One more than fits, to know whether there is a next page.
	for batch, read := l.limit+1, 0; ; batch = 1000 {
		query, args := l.pageQuery(now, from, to, batch)
		n, last, full, err := l.readRecords(ctx, db, query, args, now, page)
		if n == 0 {
			last = from // the page was full before this statement
		}
		if err != nil || full || n < batch {
			return last, full, err
		}
		if read += n; read >= maxRead {
			return last, true, nil
		}
		from = last
	}
}

// readRecords adds the records of one statement to the page. last is the place of the last record
// that was looked at; full means that there is another one for the next page.
func (l *listing) readRecords(ctx context.Context, db sqlkit.Execer, query string, args []any, now protocol.Micros, page *storeapi.Page) (n int, last []byte, full bool, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return 0, nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parts []byte
		var scan table.RowScan
		if err := rows.Scan(append([]any{&id, &parts}, scan.Columns()...)...); err != nil {
			return 0, nil, false, err
		}
		key, err := table.ParseParts(parts)
		row, damaged := scan.ParseRow()
		err = errors.Join(err, damaged)
		if err == nil && !l.selectsRecord(&key, &row, now) || err != nil && !l.selectsKey(&key) {
			n++
			last = l.placeOf(id, parts)
			continue
		}
		if len(page.Records)+len(page.Unreadable) == l.limit {
			return n, last, true, nil
		}
		n++
		last = l.placeOf(id, parts)
		if err != nil {
			page.Unreadable = append(page.Unreadable, storeapi.Unreadable{Key: key, Err: fmt.Errorf("sqlstore: %w", err)})
			continue
		}
		row.Answer.Body = nil // it was not read
		page.Records = append(page.Records, row.Record(key, now))
	}
	return n, last, false, rows.Err()
}

// wantsUnfinished reports whether the request is for unfinished records, which have an index.
func (l *listing) wantsUnfinished() bool {
	return l.req.State == storeapi.StateInProgress || l.req.State == storeapi.StateReleased || l.req.InDoubt || l.req.Progress
}

// scansAll reports whether no index serves the request.
func (l *listing) scansAll() bool { return l.column == "id" && !l.wantsUnfinished() }

func (l *listing) placeOf(id, parts []byte) []byte {
	if l.column == "parts" {
		return parts
	}
	return id
}

// selectsRecord reports whether the request is for the record. The statement selects a bit more.
func (l *listing) selectsRecord(key *storeapi.StoreKey, row *protocol.Row, now protocol.Micros) bool {
	return l.selectsKey(key) && (!l.req.Progress || row.HasProgress()) && (!l.req.InDoubt || row.InDoubt(now) || l.req.Asked && row.Doubtful(now))
}

func (l *listing) selectsKey(key *storeapi.StoreKey) bool {
	for _, part := range [][2]string{
		{l.req.Namespace, key.Namespace}, {l.req.Layer, key.Layer}, {l.req.Tenant, key.Tenant}, {l.req.Operation, key.Operation},
	} {
		if part[0] != "" && part[0] != part[1] {
			return false
		}
	}
	return true
}

// pageQuery returns the statement for the records after a place. It selects them by their parts as
// far as the column shows them.
func (l *listing) pageQuery(now protocol.Micros, from, to []byte, batch int) (query string, args []any) {
	q := l.store.db.Statements.Load()
	query, args = q.ListRecords, []any{now}
	add := func(condition string, values ...any) {
		query += " AND " + condition
		args = append(args, values...)
	}
	add("r."+l.column+" > ?", from)
	if to != nil {
		add("r."+l.column+" <= ?", to)
	}
	if l.column == "parts" && l.end != nil {
		add("r.parts < ?", l.end)
	}
	if l.column == "id" {
		if prefix := prefixOf(l.req); prefix != nil {
			add(fmt.Sprintf("substr(r.parts, 1, %d) = ?", len(prefix)), prefix)
		}
		for _, part := range []string{l.req.Layer, l.req.Tenant, l.req.Operation} {
			if part != "" {
				add(q.PartsContain, table.AppendField(nil, part))
			}
		}
	}
	// Literals, so that the partial index can be used.
	if l.wantsUnfinished() {
		add("r.state IN (2, 5)")
	}
	if l.req.State != 0 {
		add("r.state = ?", int64(l.req.State))
	}
	switch {
	case l.req.InDoubt && l.req.Asked:
		add("r.state = 2") // no column says whether an attempt with a lease only asks
	case l.req.InDoubt:
		add("r.state = 2 AND r.lease_end <= ?", now)
	}
	return q.Numbered(query + " ORDER BY r." + l.column + " LIMIT ?"), append(args, batch)
}

// maxRead limits how many records are read for one page.
const maxRead = 20_000

// findPart returns where the part of the records after a place ends, and how many it has. to is nil
// for the last one.
//
// A database that selects few records of many would read them all in one statement, which takes
// minutes, and no caller could tell how far it is. A part has all records, whether or not they are
// selected. If an index selects them, or the request takes all, the whole rest is one part.
func (l *listing) findPart(ctx context.Context, db sqlkit.Execer, from []byte, size int) (to []byte, n int, err error) {
	if !l.selectsSome() {
		return nil, 0, nil
	}
	q := l.store.db.Statements.Load()
	after, args := ` FROM `+q.TableName+` r WHERE r.`+l.column+` > ?`, []any{from}
	if l.end != nil {
		after, args = after+` AND r.`+l.column+` < ?`, append(args, l.end)
	}
	err = db.QueryRowContext(ctx, q.Numbered(`SELECT r.`+l.column+after+` ORDER BY r.`+l.column+` LIMIT 1 OFFSET ?`), append(args, size-1)...).Scan(&to)
	if !errors.Is(err, sql.ErrNoRows) {
		return to, size, err
	}
	err = db.QueryRowContext(ctx, q.Numbered(`SELECT count(*)`+after), args...).Scan(&n)
	return nil, n, err
}

// selectsSome reports whether the request is for some of the records that are read in the order of
// the column.
func (l *listing) selectsSome() bool {
	if l.wantsUnfinished() {
		return false
	}
	if l.column == "parts" {
		return l.req.State != 0
	}
	return l.req.State != 0 || l.req.Namespace != "" || l.req.Layer != "" || l.req.Tenant != "" || l.req.Operation != ""
}
