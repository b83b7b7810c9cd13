package sealstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Keys keeps the wrapped data keys, one for each tenant. It never sees one unwrapped. What it has
// confirmed it must not lose: answers cannot be opened without it. Methods may be called
// concurrently, by many processes.
//
// [KeysIn] keeps them as records of a store, and [KeysDir] in a directory.
type Keys interface {
	// Load returns what is stored for a tenant, or nil.
	Load(ctx context.Context, t Tenant) ([]byte, error)
	// Swap stores next for a tenant if old is stored (nil: nothing), in one step, and reports
	// whether it did. After false, or an error, next may be stored nevertheless, if this call or an
	// earlier one was repeated: the caller loads it again.
	Swap(ctx context.Context, t Tenant, old, next []byte) (bool, error)
	// Tenants calls see with each tenant that has something stored, until see returns an error.
	Tenants(ctx context.Context, see func(Tenant) error) error
}

// KeysIn returns Keys that are records of a store, in the namespace [Namespace]. It may be the
// store that has the answers, or another one. A record of a data key never expires. Forget
// overwrites it; copies in backups and logs of the database stay as long as those do.
func KeysIn(s storeapi.Store) Keys { return keysIn{s} }

type keysIn struct{ store storeapi.Store }

const keyCodec = "data-key"

// Load implements [Keys].
func (k keysIn) Load(ctx context.Context, t Tenant) ([]byte, error) {
	rec, err := k.store.Lookup(ctx, t.recordKey())
	if err != nil || rec.State == 0 {
		return nil, err
	}
	return rec.Answer.Body, checkKeyRecord(&rec)
}

// checkKeyRecord returns an error if rec is no record of a data key.
func checkKeyRecord(rec *storeapi.Record) error {
	if rec.State != storeapi.StateFailed || rec.Answer.Codec != keyCodec || rec.Answer.Body == nil {
		return errKeyDamaged
	}
	return nil
}

// Swap implements [Keys]. The claim is finished as it is made: a store writes that in one call, and
// only in place of the record whose fence the call names. A store never replaces a completed
// record, so the state is failed.
func (k keysIn) Swap(ctx context.Context, t Tenant, old, next []byte) (bool, error) {
	key := t.recordKey()
	rec, err := k.store.Lookup(ctx, key)
	if err != nil {
		return false, err
	}
	if (rec.State == 0) != (old == nil) || old != nil && (checkKeyRecord(&rec) != nil || !bytes.Equal(rec.Answer.Body, old)) {
		return false, nil //nolint:nilerr // a record that is none of a data key is not what the caller knows
	}
	req := storeapi.AcquireRequest{
		Key: key, Lease: time.Second, Retention: storeapi.Forever, OnDoubt: storeapi.Refuse, IfFence: rec.Fence,
		Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: keyCodec, Body: next, Kept: true}, Cause: keyCodec},
	}
	if rec.State == 0 {
		req.IfFence = 0
	}
	_, _ = rand.Read(req.Owner[:]) // never fails
	got, err := k.store.Acquire(ctx, req)
	if err != nil {
		return false, err
	}
	return got.Status == storeapi.StatusAcquired, nil
}

// Tenants implements [Keys].
func (k keysIn) Tenants(ctx context.Context, see func(Tenant) error) error {
	lister, ok := k.store.(storeapi.Lister)
	if !ok {
		return errors.ErrUnsupported
	}
	req := storeapi.ListRequest{Namespace: Namespace, Limit: 1000}
	for {
		page, err := lister.List(ctx, req)
		if err != nil {
			return err
		}
		for _, u := range page.Unreadable {
			return fmt.Errorf("sealstore: a record of a data key cannot be read: %w", u.Err)
		}
		for i := range page.Records {
			t := Tenant{page.Records[i].Key.Operation, page.Records[i].Key.Tenant}
			if page.Records[i].Key != t.recordKey() {
				continue
			}
			if err := see(t); err != nil {
				return err
			}
		}
		if req.After = page.Next; req.After == "" {
			return nil
		}
	}
}
