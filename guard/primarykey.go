package guard

import (
	"context"
	"sync"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// PrimaryKey guards an INSERT by the row's own id, which is chosen before the request is submitted:
// the server sends it with the form, or the client generates it. The second INSERT fails, and
// Insert returns [AlreadyApplied].
//
// It is [Unique] on the id. An id that another request has is [ErrConflict], because two clients
// chose the same one, or because one used another's. The column Key stores the digest of the
// request's key, whose Tenant tells the clients apart; its ID may be the id itself. A table that
// numbers its rows itself (AUTO_INCREMENT, IDENTITY, serial) is refused: a duplicate request may
// get the next number, and a number that the table assigns may be an id that a client chose. Ids
// that clients generate must be unguessable (UUIDs). In a sharded database the id decides the
// shard.
//
// It costs one statement, and a second one if the row exists. Table may be schema.table. ID is the
// primary key, or another column with a unique index. A PrimaryKey is safe for concurrent use. It
// is meant to be a package variable and must not be copied after its first use.
type PrimaryKey struct {
	Table, ID, Key string

	once   sync.Once
	unique Unique
}

// Insert inserts the row with this id. row has the other columns, and may be nil.
//
// Errors: [ErrConflict], [ErrMisuse], [ErrLocked], and wrapped errors of the database. After each
// of them, roll back.
func (k *PrimaryKey) Insert(ctx context.Context, tx dbtx.Tx, id any, by retrysafe.Key, row Set) (Outcome, error) {
	k.once.Do(func() {
		k.unique.Table, k.unique.Columns, k.unique.Key, k.unique.fromRequest = k.Table, []string{k.ID}, k.Key, true
	})
	if err := checkID(id); err != nil {
		return 0, err
	}
	all := make(Set, len(row)+1)
	for c, v := range row {
		if sameName(c, k.ID) {
			return 0, misuseError("the id stands in the row too; leave %s out there", c)
		}
		all[c] = v
	}
	all[k.ID] = id
	return k.unique.Insert(ctx, tx, by, all)
}
