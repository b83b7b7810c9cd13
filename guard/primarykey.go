package guard

import (
	"context"
	"sync"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// PrimaryKey guards an INSERT by the row's own id, which is made before the request is submitted:
// the server hands it out with the form, or the client makes it. The second INSERT fails, and is
// answered as success.
//
// It is [Unique] on the id. An id that another request has, because two clients have made the same
// one or because one names another's, is [ErrConflict]: the column Key keeps the digest of the
// request's key, whose Tenant tells the clients apart; its ID may be the id itself. A table that
// numbers its rows by itself (AUTO_INCREMENT, IDENTITY, serial) is refused: a repeat may get the
// next number, and a number that it gives may be an id that a client has made. Ids that clients
// make are to be ones that nobody can guess (UUIDs), and in a database that is split the id decides
// the shard.
//
// One statement, and one more where the row is there. Table may be schema.table. ID is the primary
// key, or another column with a unique index. A PrimaryKey is safe for concurrent use, is meant to
// be a variable of the package, and must not be copied after its first use.
type PrimaryKey struct {
	Table, ID, Key string

	once   sync.Once
	unique Unique
}

// Insert makes the row with this id. row has the other columns, and may be nil.
//
// Errors: [ErrConflict], [ErrMisuse], [ErrLocked], those of the database, wrapped. After each roll
// back.
func (k *PrimaryKey) Insert(ctx context.Context, tx dbtx.Tx, id any, by retrysafe.Key, row Set) (Outcome, error) {
	k.once.Do(func() {
		k.unique.Table, k.unique.Columns, k.unique.Key, k.unique.given = k.Table, []string{k.ID}, k.Key, true
	})
	if err := checkID(id); err != nil {
		return 0, err
	}
	all := make(Set, len(row)+1)
	for c, v := range row {
		if sameName(c, k.ID) {
			return 0, misuse("the id stands in the row too; leave %s out there", c)
		}
		all[c] = v
	}
	all[k.ID] = id
	return k.unique.Insert(ctx, tx, by, all)
}
