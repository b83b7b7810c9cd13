package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/dberr"
)

// Primary result codes of SQLite. Extended codes have them in their low byte.
const (
	codeError      = 1
	codeBusy       = 5
	codeNoMemory   = 7
	codeInterrupt  = 9
	codeReadOnly   = 8
	codeIO         = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeProtocol   = 15
	codeConstraint = 19
	codeNotADB     = 26

	codeLockedSharedCache = 6 | 1<<8
	codeBusySnapshot      = codeBusy | 2<<8
)

// sqliteBusy reports whether another transaction was in the way, so that the same call may succeed
// later.
func sqliteBusy(err error) bool {
	code := dberr.SQLiteCode(err)
	return code&0xff == codeBusy || code&0xff == codeProtocol || code == codeLockedSharedCache
}

// sqliteUndone reports whether a COMMIT that failed has certainly changed nothing. After any other
// error the outcome is unknown.
func sqliteUndone(err error) bool {
	switch dberr.SQLiteCode(err) & 0xff {
	case codeBusy, codeReadOnly, codeFull, codeConstraint:
		return true
	}
	return false
}

// sqliteUndoes reports whether SQLite may have rolled back the whole transaction because of err.
func sqliteUndoes(err error) bool {
	switch dberr.SQLiteCode(err) & 0xff {
	case codeBusy, codeNoMemory, codeInterrupt, codeIO, codeFull, codeConstraint:
		return true
	}
	return false
}

// interrupted returns the error of ctx if SQLite was interrupted because ctx ended, and err
// otherwise.
func interrupted(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && dberr.SQLiteCode(err)&0xff == codeInterrupt && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// sqliteAdvice says what a result code means and what to do.
var sqliteAdvice = map[int]string{
	codeBusy:     "another transaction holds the database file",
	codeReadOnly: "the database file can only be read, and nothing was changed; open it without mode=ro, and let this user write to the file and to its directory",
	codeIO:       "the disk has failed; look into the system's log before you go on",
	codeCorrupt:  "the database file is damaged; stop the program, keep a copy, and restore a backup (PRAGMA integrity_check tells more)",
	codeFull:     "the disk is full, or the file has reached its max_page_count, and nothing was written; make room",
	codeCantOpen: "the database file cannot be opened; look whether its directory exists and this user may write to it",
	codeNotADB:   "the file is not a SQLite database, or it is encrypted; look at the path, nothing was changed",
}
