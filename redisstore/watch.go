package redisstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

var _ retrysafe.Notifier = (*Store)(nil)

// Watch implements [retrysafe.Notifier] if the client can subscribe. A finished attempt is
// published on a channel with the name of the record.
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
