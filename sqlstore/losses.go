package sqlstore

import (
	"context"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// lostAnswer is what the loss of a commit means to callers.
const lostAnswer = "what was answered may run again"

// warn logs the settings with which a crash can lose answered calls.
func (d *database) warn(ctx context.Context, db sqlkit.Execer) error {
	found, err := sqlkit.Losses(ctx, db, d.dialect)
	for _, loss := range found {
		d.logger.Warn("sqlstore: "+loss.Text(lostAnswer), "table", d.table)
	}
	return err
}

// refuseLosses returns an error if there is such a setting.
func (d *database) refuseLosses(ctx context.Context, db sqlkit.Execer) error {
	found, err := sqlkit.Losses(ctx, db, d.dialect)
	if err != nil || len(found) == 0 {
		return err
	}
	return stateError("sqlstore: " + found[0].Text(lostAnswer))
}
