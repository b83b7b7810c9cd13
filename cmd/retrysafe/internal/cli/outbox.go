package cli

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/retrysafe/retrysafe/outbox"
)

// openOutbox opens the outbox in a database. An error does not quote the address.
func openOutbox(name string, log *slog.Logger) (*outbox.Outbox, func(), error) {
	n, err := parseStore(name)
	if err == nil && !n.hasTables() {
		err = errors.New("--outbox names a database: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	}
	if err != nil {
		return nil, nil, &usageError{err}
	}
	db, dialect, err := n.openDatabase(toInspect, 4)
	if err != nil {
		return nil, nil, fmt.Errorf("outbox in %s: %w", n, err)
	}
	box, err := outbox.New(db, dialect, &outbox.Options{Logger: log})
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("outbox in %s: %w", n, err)
	}
	return box, func() { _ = db.Close() }, nil
}
