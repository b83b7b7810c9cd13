package locks_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/sqllock"
)

// Locks in a table, for processes that share the database.
func Example_sqllock() {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "locks.db")+"?_pragma=journal_mode(WAL)")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	ctx := context.Background()
	table, err := sqllock.NewTable(db, sqllock.SQLite, nil)
	if err == nil {
		err = table.Migrate(ctx)
	}
	if err != nil {
		panic(err)
	}
	err = lock.New(table, nil).With(ctx, "account/42", func(ctx context.Context, held *lock.Lock) error {
		fmt.Println("held, with a fence:", held.Fence() > 0)
		_, err := lock.New(table, nil).TryLock(ctx, "account/42") // another process
		fmt.Println(err)
		return nil
	})
	fmt.Println(err)
	// Output:
	// held, with a fence: true
	// lock: another holder has it; nothing was done; wait with Lock, or try again later
	// <nil>
}
