package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// resolveAudited resolves a record, with its entries in the audit log, and prints what it is then.
func (r *resolveFlags) resolveAudited(c *cobra.Command, s storeapi.Store, d *admin.Records, rec *retrysafe.Record, res retrysafe.Resolution) error {
	ctx, hash := c.Context(), d.Hash(rec.Key)
	defer whileWaiting(c.ErrOrStderr(), "the store has not answered yet; this command waits for at most about half a minute")()
	resolved := false
	err := auditLog(s, rec.Key.Namespace).Do(ctx, r.operator.entry("resolve", hash, r.outcome), func() error {
		err := d.Resolve(ctx, rec.Key, res)
		resolved = err == nil
		return operatorErrorOf(err, hash)
	})
	if err != nil && resolved {
		return fmt.Errorf("%s is resolved, but the audit log has no entry of the result: %w", hash, err)
	}
	if err != nil {
		return err
	}
	now, err := d.Lookup(ctx, rec.Key)
	if err != nil {
		return fmt.Errorf("%s is resolved, but could not be looked up again: %w", hash, operatorErrorOf(err, hash))
	}
	fmt.Fprintf(c.OutOrStdout(), "%s is %s now, fence %d\n", hash, admin.StateOf(&now), now.Fence)
	return nil
}

// whileWaiting prints a text if the returned function is not called within a few seconds.
func whileWaiting(out io.Writer, text string) (stop func()) {
	said := make(chan struct{})
	t := time.AfterFunc(3*time.Second, func() {
		defer close(said)
		fmt.Fprintf(out, "… %s\n", text)
	})
	return func() {
		if !t.Stop() {
			<-said
		}
	}
}

// operatorError is an error of the engine in words for operators: its own words are for programs,
// which retry their calls.
type operatorError struct {
	text string
	err  error
}

func (e *operatorError) Error() string { return e.text }
func (e *operatorError) Unwrap() error { return e.err }

// operatorErrorOf returns an error of the engine in words for operators.
func operatorErrorOf(err error, hash string) error {
	var text string
	switch {
	case errors.Is(err, retrysafe.ErrUnconfirmed):
		text = "the store did not confirm the change, which may have been made or not. Before anything else, look at the record again: retrysafe keys show " +
			hash + ". The error of the store: " + storeErrorText(err)
	case errors.Is(err, retrysafe.ErrFenceChanged):
		text = "the record has changed since it was read, and this changed nothing; look at it again: retrysafe keys show " + hash
	case errors.Is(err, retrysafe.ErrInProgress):
		text = "an attempt has a live lease and may still act; wait until the lease ends, or say --force. Nothing was changed"
	case errors.Is(err, retrysafe.ErrDuplicate):
		text = "the record is completed: it has its answer, which is never changed"
	case errors.Is(err, retrysafe.ErrUnavailable):
		text = "the store cannot be reached or fails, and nothing was changed: " + storeErrorText(err)
	default:
		return err
	}
	return &operatorError{text, err}
}

// storeErrorText returns the text of the store's error in an error of the engine.
func storeErrorText(err error) string {
	for errors.Is(err, retrysafe.ErrUnconfirmed) || errors.Is(err, retrysafe.ErrUnavailable) {
		var inner error
		switch e := err.(type) { //nolint:errorlint // this walks the tree by itself
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }:
			all := e.Unwrap()
			inner = all[len(all)-1]
		}
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
	return Printable(err.Error())
}

// lookupRecord returns the record of a key with its answer.
func lookupRecord(ctx context.Context, d *admin.Records, key storeapi.StoreKey) (retrysafe.Record, error) {
	rec, err := d.Lookup(ctx, key)
	if errors.Is(err, retrysafe.ErrUnavailable) {
		return rec, &operatorError{"the store cannot be reached or fails, and nothing was changed: " + storeErrorText(err), err}
	}
	return rec, err
}
