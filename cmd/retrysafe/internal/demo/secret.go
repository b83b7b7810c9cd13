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
// store, whatever an earlier demonstration had. Like all its records there, that of the check value
// expires within an hour, while a gateway would keep it for ever.
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
	key := storeapi.StoreKey{Namespace: namespace, Layer: "secret", Key: retrysafe.Key{Operation: "secret", ID: "check"}}
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
