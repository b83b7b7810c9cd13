package outbox

import (
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// ErrDuplicate means that the outbox already has a message with this ID. Nothing was added, and the
// transaction can continue.
//
// It does not protect against duplicate calls, since published messages are removed. The key of the
// call that adds does that.
var ErrDuplicate = errors.New("outbox: a message with this ID is in the outbox already; give each message an ID of its own, or none")

// errPartitionLost means that another relay has the partition by now.
var errPartitionLost = errors.New("outbox: another relay has the partition")

// explainError adds the failed step to err, and what to do if that is known.
func (o *Outbox) explainError(step string, err error) error {
	if err == nil {
		return nil
	}
	if sqlkit.MissingTable(err, o.table) {
		return fmt.Errorf("outbox: %s: the tables %s… are not there; call Migrate, or run SchemaSQL: %w", step, o.table, err)
	}
	return fmt.Errorf("outbox: %s: %w", step, err)
}
