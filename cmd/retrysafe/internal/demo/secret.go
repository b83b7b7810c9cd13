package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// namespace is that of the gateways, also in the user's store.
const namespace = "retrysafe-demo"

// setTemporarySecret makes the secret of this demonstration the one of its namespace in the user's
// store, whatever an earlier demonstration had. Like all its records there, those of the check
// value and of the marks expire within an hour, while a gateway would keep them for ever.
func setTemporarySecret(ctx context.Context, open Opener, store string) (err error) {
	s, end, err := open(ctx, store, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	records, err := admin.NewRecords(s, &admin.RecordsOptions{Secret: []byte(os.Getenv(secretName))})
	if err != nil {
		return err
	}
	if _, err := records.ReplaceSecret(ctx, namespace); err != nil {
		return err
	}
	e := retrysafe.New(s, &retrysafe.Options{Namespace: namespace, Secret: []byte(os.Getenv(secretName)), Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	_, err = e.MarkStore(ctx) // the marks of gateways keep the retention of the one before
	if err := errors.Join(err, e.Shutdown(ctx)); err != nil {
		return err
	}
	for _, key := range []storeapi.StoreKey{
		{Namespace: namespace, Layer: "secret", Key: retrysafe.Key{Operation: "secret", ID: "check"}},
		{Namespace: namespace, Layer: "mark", Key: retrysafe.Key{Operation: "mark", ID: "last"}},
	} {
		if err := expireRecord(ctx, s, key); err != nil {
			return err
		}
	}
	return nil
}

// expireRecord lets a finished record expire within an hour.
func expireRecord(ctx context.Context, s storeapi.Store, key storeapi.StoreKey) error {
	rec, err := s.Lookup(ctx, key)
	if err != nil {
		return err
	}
	req := storeapi.AcquireRequest{Key: key, Lease: time.Second, Retention: time.Hour, OnDoubt: storeapi.Refuse, IfFence: rec.Fence, Binding: rec.Binding}
	req.Finish = &storeapi.Finish{State: rec.State, Answer: rec.Answer, Cause: rec.Cause}
	_, _ = rand.Read(req.Owner[:]) // never fails
	_, err = s.Acquire(ctx, req)
	return err
}
