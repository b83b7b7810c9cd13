package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/secretvalue"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// CheckSecret returns [ErrSecretChanged] if [Options].Secret is not the one that the namespace was
// used with. Call it when the program starts, before the first call, and do not serve after that
// error: known callers would be new ones, and a retry of an earlier call could run again.
//
// The store keeps a check value of the secret, one record for each namespace, which never expires:
// an HMAC of a fixed text, from which no one learns a random secret. The first caller of
// CheckSecret writes it, and all others compare. An engine without a secret writes that there is
// none. Calls that do not find out return [ErrUnavailable]; call CheckSecret again then.
func (e *Engine) CheckSecret(ctx context.Context) error {
	c := e.c
	var rec Record
	err := c.store.CallUntilAnswered(ctx, func(limit time.Duration) (err error) {
		rec, err = c.secretRecord(ctx, limit)
		return err
	})
	if err != nil {
		return &Error{Op: opSecret, Err: storecall.Unavailable(err), RetryAfter: time.Second}
	}
	if rec.State == 0 { // written now
		return nil
	}
	difference, err := secretvalue.Compare(&rec, c.secret)
	if difference != "" {
		err = fmt.Errorf("%w: %s", ErrSecretChanged, difference)
	}
	if err != nil {
		return &Error{Op: opSecret, Err: err}
	}
	return nil
}

// opSecret is the step that failed, for errors.
const opSecret = "check the secret"

// errSecretRaced means that another process has written the check value meanwhile.
var errSecretRaced = errors.New("another process has written the check value of the secret meanwhile")

// secretRecord returns the record with the check value, or writes it if there is none and returns a
// zero record. After a lost reply the next call finds what this one has written.
func (c *core) secretRecord(ctx context.Context, limit time.Duration) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rec, err := c.store.Lookup(ctx, secretvalue.Key(c.namespace))
	if err != nil || rec.State != 0 {
		return rec, err
	}
	req := secretvalue.Write(&rec, c.namespace, c.secret, claim.NewOwner(), storecall.Limit)
	status, err := c.store.Acquire(ctx, &req, time.Now(), &rec)
	if err == nil && status != storeapi.StatusAcquired {
		err = errSecretRaced
	}
	return Record{}, err
}
