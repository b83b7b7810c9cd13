package idgen

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// untilCodec names the reservation that is stored with a lease: nanoseconds since 1970, 8 bytes,
// big-endian. The reservation ends with the lease, so that the next holder can begin as soon as the
// lease has expired.
const untilCodec = "idgen/until"

// keepFor is how long the record of a number without a holder is kept. Its reservation ended long
// before.
const keepFor = 30 * 24 * time.Hour

// storeNumbers leases numbers in a store.
type storeNumbers struct {
	store  storeapi.Store
	unsafe bool
}

// layoutCodec names the record with the layout of a namespace.
const layoutCodec = "idgen/layout"

// layoutLease is the lease of a process that writes the layout of a namespace.
const layoutLease = 10 * time.Second

func (s *storeNumbers) Agree(ctx context.Context, namespace string, layout Layout) error {
	if err := s.checkKeeps(ctx); err != nil && !s.unsafe {
		return fmt.Errorf("the store may lose reservations, and ids would repeat: %w; or set Unsafe if they may", err)
	}
	key := storeapi.StoreKey{Namespace: namespace, Layer: "ids", Key: retrysafe.Key{Operation: "layout", ID: "of all"}}
	var owner storeapi.Owner
	_, _ = rand.Read(owner[:])
	for {
		got, err := s.store.Acquire(ctx, storeapi.AcquireRequest{
			Key: key, Owner: owner, Lease: layoutLease, Retention: retrysafe.Forever, OnDoubt: retrysafe.Reexecute,
		})
		switch {
		case err != nil:
			return err
		case got.Status == storeapi.StatusAcquired:
			text := []byte(layout.String())
			_, err := s.store.Complete(ctx, storeapi.CompleteRequest{
				Key: key, Owner: owner, Fence: got.Record.Fence, State: retrysafe.StateCompleted, Retention: retrysafe.Forever,
				Answer: retrysafe.Answer{Kept: true, Codec: layoutCodec, Body: text, Size: int64(len(text))},
			})
			return err
		case got.Status == storeapi.StatusFinished:
			if is := string(got.Record.Answer.Body); is != layout.String() {
				return OtherLayout(is, layout)
			}
			return nil
		case got.Status != storeapi.StatusInProgress:
			return fmt.Errorf("the record of the layout cannot be read (status %d)", got.Status)
		}
		if err := backoff.Pause(ctx, 50*time.Millisecond); err != nil { // another process writes it
			return err
		}
	}
}

// checkKeeps returns an error that says how the store may lose what it has confirmed.
func (s *storeNumbers) checkKeeps(ctx context.Context) error {
	keeper, ok := s.store.(storeapi.Keeper)
	if !ok {
		return fmt.Errorf("%T does not tell (storeapi.Keeper)", s.store)
	}
	err := keeper.Keeps(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("a store that %T passes calls to does not tell (storeapi.Keeper)", s.store)
	}
	return err
}

func (s *storeNumbers) Claim(ctx context.Context, r NumberRequest) (Claimed, error) {
	l := &storeLease{store: s.store, key: storeapi.StoreKey{
		Namespace: r.Namespace, Layer: "ids", Key: retrysafe.Key{Operation: "worker", ID: strconv.Itoa(r.Number)},
	}}
	_, _ = rand.Read(l.owner[:]) // never fails: it would end the process
	got, err := s.store.Acquire(ctx, storeapi.AcquireRequest{
		Key: l.key, Owner: l.owner, Lease: r.Lease, Retention: keepFor, OnDoubt: retrysafe.Reexecute,
	})
	switch {
	case err != nil:
		return Claimed{}, err
	case got.Status != storeapi.StatusAcquired:
		return Claimed{}, ErrTaken
	}
	l.fence = got.Record.Fence
	return Claimed{NumberLease: l, Fence: l.fence, Now: got.Record.Now, Reserved: reservedUntil(got.Record)}, nil
}

// reservedUntil returns the time up to which an earlier holder may have made ids.
func reservedUntil(r retrysafe.Record) time.Time {
	if r.Answer.Codec != untilCodec || len(r.Answer.Body) != 8 {
		return time.Time{}
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(r.Answer.Body))) //nolint:gosec // reverses the conversion on writing
}

type storeLease struct {
	store storeapi.Store
	key   storeapi.StoreKey
	owner storeapi.Owner
	fence retrysafe.Fence
}

func (l *storeLease) Reserve(ctx context.Context, until time.Time, lease time.Duration) error {
	ns := until.UnixNano()
	return l.store.Extend(ctx, storeapi.ExtendRequest{
		Key: l.key, Owner: l.owner, Fence: l.fence, Lease: lease,
		Progress: &retrysafe.Answer{Codec: untilCodec, Body: binary.BigEndian.AppendUint64(nil, uint64(ns)), Kept: true, Size: ns},
	})
}

// Release ends the lease at once. The record stays with its reservation.
func (l *storeLease) Release(ctx context.Context, cause string) error {
	return l.store.Release(ctx, storeapi.ReleaseRequest{Key: l.key, Owner: l.owner, Fence: l.fence, Retention: keepFor, Quiet: true, Cause: cause})
}
