package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/secretvalue"
	"github.com/retrysafe/retrysafe/internal/storemark"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// isReservedLayer reports whether a layer has no calls: the audit log, the check value of the
// secret, and the marks of the store.
func isReservedLayer(layer string) bool {
	return layer == "audit" || layer == secretvalue.Layer || layer == storemark.Layer
}

// CheckSecret compares the secret of d with the check value of a namespace, and never writes
// that. The error is [retrysafe.ErrSecretChanged], or one of the store. known is false if the
// namespace has no check value: none of its processes has called [retrysafe.Engine.CheckSecret].
func (d *Records) CheckSecret(ctx context.Context, namespace string) (known bool, err error) {
	_, known, err = d.compareSecret(ctx, namespace)
	return known, err
}

func (d *Records) compareSecret(ctx context.Context, namespace string) (rec storeapi.Record, known bool, err error) {
	rec, err = d.store.Lookup(ctx, secretvalue.Key(namespace))
	if err != nil || rec.State == 0 {
		return rec, false, err
	}
	difference, err := secretvalue.Compare(&rec, d.o.Secret)
	if difference != "" {
		err = fmt.Errorf("%w: %s", retrysafe.ErrSecretChanged, difference)
	}
	if err != nil {
		err = &retrysafe.Error{Op: "check the secret", Err: err}
	}
	return rec, true, err
}

// checkSecret returns an error if a namespace was used with another secret than that of this
// server: no one would find the hash of a record in the audit log.
func (c *apiCall) checkSecret(namespace string) error {
	if namespace == "" {
		return nil
	}
	_, err := c.records.CheckSecret(c.r.Context(), namespace)
	if errors.Is(err, retrysafe.ErrSecretChanged) {
		return newProblem(http.StatusConflict, "other-secret", fmt.Sprintf("namespace %q was used with another secret than that of this server, so nothing is changed or "+
			"revealed here; start this server with the RETRYSAFE_SECRET of that service, or ask the one of that service", namespace))
	}
	return err
}

// secretTries is how often ReplaceSecret begins again after a lost reply or a change of others.
const secretTries = 5

// ReplaceSecret makes the secret of d the one of a namespace. It reports whether the
// namespace had another check value, or none. Processes that have checked their secret before do
// not notice, so stop them first. For the others, callers that are known by a credential are new
// ones from now on: a retry of an earlier request runs again.
func (d *Records) ReplaceSecret(ctx context.Context, namespace string) (replaced bool, err error) {
	for range secretTries {
		rec, known, err := d.compareSecret(ctx, namespace)
		switch {
		case known && err == nil:
			return replaced, nil
		case err != nil && !errors.Is(err, retrysafe.ErrSecretChanged):
			return replaced, err
		}
		replaced = true
		// After an error the next round finds out whether it was written.
		_, _ = d.store.Acquire(ctx, secretvalue.Write(&rec, namespace, d.o.Secret, newOwner(), 5*time.Second))
	}
	return replaced, errors.New("the check value of the secret was not replaced: the store did not answer, or others change it; run the command again")
}

// findOtherSecret returns the error of the first of some namespaces that was used with another
// secret than that of d, or nil.
func (d *Records) findOtherSecret(ctx context.Context, namespaces map[string]bool) error {
	for namespace := range namespaces {
		if namespace == "" {
			continue
		}
		if _, err := d.CheckSecret(ctx, namespace); errors.Is(err, retrysafe.ErrSecretChanged) {
			return err
		}
	}
	return nil
}

// noteSecrets logs a warning for each namespace of the records that was used with another secret
// than that of d, once: their hashes are not those that the service logs.
func (d *Records) noteSecrets(ctx context.Context, records []storeapi.Record) {
	for i := range records {
		namespace := records[i].Key.Namespace
		d.mu.Lock()
		done := d.secretChecked[namespace] || len(d.secretChecked) >= maxEngines
		if !done {
			d.secretChecked[namespace] = true
		}
		d.mu.Unlock()
		if done {
			continue
		}
		if _, err := d.CheckSecret(ctx, namespace); errors.Is(err, retrysafe.ErrSecretChanged) {
			d.o.Logger.Warn("hashes of this namespace differ from those that the service logs", "namespace", namespace, "error", err.Error())
		}
	}
}
