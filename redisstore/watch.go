package redisstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

var _ retrysafe.Notifier = (*Store)(nil)

// Watch implements [retrysafe.Notifier] where the client can subscribe: what ends an attempt is
// published on the channel that is named like the record.
func (s *Store) Watch(ctx context.Context, key retrysafe.StoreKey, changed func()) error {
	sub, ok := s.client.(redisclient.Subscriber)
	if !ok || s.o.Quiet {
		return errors.ErrUnsupported
	}
	name, err := s.name(&key)
	if err != nil {
		return err
	}
	return sub.Subscribe(ctx, name, func(string) { changed() })
}
