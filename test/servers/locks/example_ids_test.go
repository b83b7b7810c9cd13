package locks_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/sqlranges"
)

// Invoice numbers from a table: each process takes a range of them at a time, and loses the rest of
// its range when it ends.
func Example_segmentOfIDs() {
	dir, err := os.MkdirTemp("", "retrysafe")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	process := func() {
		db, err := sql.Open("sqlite", filepath.Join(dir, "app.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			log.Fatal(err)
		}
		defer db.Close()
		ranges, err := sqlranges.New(db, sqlranges.SQLite, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := ranges.Migrate(ctx); err != nil {
			log.Fatal(err)
		}
		if _, err := ranges.Create(ctx, "invoice", 1, 100); err != nil {
			// The second call changes nothing.
			log.Fatal(err)
		}
		invoices, err := idgen.NewSegment(ranges, "invoice", nil)
		if err != nil {
			log.Fatal(err)
		}
		defer invoices.Close()
		ids, err := invoices.NextN(ctx, 3)
		fmt.Println(ids, err)
	}
	process()
	process()
	// Output:
	// [1 2 3] <nil>
	// [101 102 103] <nil>
}
