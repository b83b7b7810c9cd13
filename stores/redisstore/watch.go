package redisstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var _ storeapi.Notifier = (*Store)(nil)

// Watch implements [storeapi.Notifier] if the client can subscribe. A finished attempt is
// published on a channel with the name of the record.
func (s *Store) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	sub, ok := s.client.(redisclient.Subscriber)
	if !ok || s.o.Quiet {
		return errors.ErrUnsupported
	}
	name, err := s.recordName(&key)
	if err != nil {
		return err
	}
	return sub.Subscribe(ctx, name, func(string) { changed() })
}
