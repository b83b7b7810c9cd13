package sqlranges

import (
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// explainError says which step err is from, and what to do if that is known.
func (r *Ranges) explainError(step string, err error) error {
	switch {
	case err == nil, errors.Is(err, idgen.ErrNoTag), errors.Is(err, idgen.ErrSpent):
		return err
	case sqlkit.MissingTable(err, r.name):
		return fmt.Errorf("sqlranges: %s: the table %s is not there; call Migrate, or run SchemaSQL: %w", step, r.name, err)
	case sqlkit.ClassOf(err) == sqlkit.NoColumn:
		return fmt.Errorf("sqlranges: %s: the table %s has other columns; it needs biz_tag, max_id, step and update_time: %w", step, r.name, err)
	}
	return fmt.Errorf("sqlranges: %s: %w", step, err)
}
