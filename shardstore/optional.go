package shardstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/storeapi"
)

var (
	_ storeapi.Store       = (*Store)(nil)
	_ storeapi.Issuer      = (*Store)(nil)
	_ storeapi.Limiter     = (*Store)(nil)
	_ storeapi.UsageReader = (*Store)(nil)
	_ storeapi.Lister      = (*Store)(nil)
	_ storeapi.Notifier    = (*Store)(nil)
	_ storeapi.Sweeper     = (*Store)(nil)
	_ storeapi.Batcher     = (*Store)(nil)
	_ storeapi.Keeper      = (*Store)(nil)
	_ storeapi.Sharer      = (*Store)(nil)
)

// Charge implements [storeapi.Limiter]. A tenant's counts are in one shard. While they move, the
// old shard decides, and the next one counts as well.
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Charged{}, err
	}
	if err := req.Validate(); err != nil {
		return storeapi.Charged{}, err
	}
	text := usageName(req.Namespace, req.Tenant)
	for range rounds {
		charged, err := s.charge(ctx, text, req)
		if !errors.Is(err, errMoved) {
			return charged, err
		}
	}
	return storeapi.Charged{}, errRestless
}

func (s *Store) charge(ctx context.Context, text []byte, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	p := new(place)
	s.mu.Lock()
	p.m = s.m
	s.mu.Unlock()
	p.name, p.nextName = p.m.homes(text)
	if err := s.fill(ctx, p); err != nil {
		return storeapi.Charged{}, err
	}
	home, ok := p.home.(storeapi.Limiter)
	next, okNext := p.next.(storeapi.Limiter)
	if !ok || !okNext {
		return storeapi.Charged{}, errors.ErrUnsupported
	}
	charged, err := home.Charge(ctx, req)
	if err != nil || !charged.OK || !p.moves() {
		return charged, failedIf(p.name, err)
	}
	req.Limits = storeapi.Limits{} // it was admitted
	if _, err := next.Charge(ctx, req); err != nil {
		return charged, failedUnsure(p.nextName, err)
	}
	return charged, nil
}

// Usage implements [storeapi.UsageReader]. It reads the shard that decides on new keys.
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Usage{}, err
	}
	if err := req.Validate(); err != nil {
		return storeapi.Usage{}, err
	}
	m := s.Map()
	name, _ := m.homes(usageName(req.Namespace, req.Tenant))
	shard, err := s.atlas.shard(name)
	if err != nil {
		return storeapi.Usage{}, err
	}
	reader, ok := shard.(storeapi.UsageReader)
	if !ok {
		return storeapi.Usage{}, errors.ErrUnsupported
	}
	u, err := reader.Usage(ctx, req)
	return u, failedIf(name, err)
}

// usageName returns the text by which the counts of a tenant find their shard.
func usageName(namespace, tenant string) []byte {
	// never fails
	text, _ := storeapi.StoreKey{Namespace: namespace, Layer: "limit", Key: storeapi.Key{Tenant: tenant}}.AppendText(nil)
	return text
}

// List implements [storeapi.Lister]: one shard after the other, sorted by name. A record with two
// homes is listed at the old one.
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Page{}, err
	}
	m := s.Map()
	names := m.Names
	if m.Moving() {
		names = m.Was
	}
	limit := req.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	at, after, _ := strings.Cut(req.After, cursorMark)
	var page storeapi.Page
	for i, name := range names {
		if name < at {
			continue
		}
		if name > at {
			after = ""
		}
		for {
			req.After, req.Limit = after, limit-len(page.Records)
			part, err := s.listed(ctx, name, req)
			if err != nil {
				return storeapi.Page{}, err
			}
			page.Scans, page.Read = page.Scans || part.Scans, page.Read+part.Read
			for _, rec := range part.Records {
				if home, _ := m.Home(rec.Key); home == name && rec.Key.Namespace != namespace {
					page.Records = append(page.Records, rec)
				}
			}
			for _, u := range part.Unreadable {
				if home, _ := m.Home(u.Key); home == name && u.Key.Namespace != namespace {
					page.Unreadable = append(page.Unreadable, u)
				}
			}
			after = part.Next
			// A store that scans has returned for its caller to see how far it is.
			if after != "" && (part.Scans || len(page.Records) >= limit) {
				page.Next = name + cursorMark + after
				return page, nil
			}
			if after == "" {
				break
			}
		}
		if len(page.Records) >= limit {
			if i+1 < len(names) {
				page.Next = names[i+1] + cursorMark
			}
			return page, nil
		}
	}
	return page, nil
}

// cursorMark separates the name of a shard from the shard's own cursor. Names of shards cannot
// contain it.
const cursorMark = "\x00"

func (s *Store) listed(ctx context.Context, name string, req storeapi.ListRequest) (storeapi.Page, error) {
	shard, err := s.atlas.shard(name)
	if err != nil {
		return storeapi.Page{}, err
	}
	lister, ok := shard.(storeapi.Lister)
	if !ok {
		return storeapi.Page{}, errors.ErrUnsupported
	}
	page, err := lister.List(ctx, req)
	return page, failedIf(name, err)
}

// Watch implements [storeapi.Notifier]. It watches at the shard that decides on the key.
func (s *Store) Watch(ctx context.Context, key storeapi.StoreKey, changed func()) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	m := s.Map()
	name, _ := m.Home(key)
	shard, err := s.atlas.shard(name)
	if err != nil {
		return err
	}
	if n, ok := shard.(storeapi.Notifier); ok {
		return n.Watch(ctx, key, changed)
	}
	return errors.ErrUnsupported
}

// Sweep implements [storeapi.Sweeper] for the shards that need it, one after the other. A shard
// that is away does not keep it from the others.
func (s *Store) Sweep(ctx context.Context, limit int) (removed int, err error) {
	swept := false
	var errs []error
	m := s.Map()
	for _, name := range m.all() {
		shard, err := s.atlas.shard(name)
		if err != nil {
			return removed, err
		}
		sweeper, ok := shard.(storeapi.Sweeper)
		if !ok {
			continue
		}
		if swept && removed >= limit {
			break
		}
		n, err := sweeper.Sweep(ctx, limit-removed)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		swept = true
		removed += n
		if err != nil {
			errs = append(errs, failed(name, err))
		}
	}
	if !swept {
		return 0, errors.ErrUnsupported
	}
	return removed, errors.Join(errs...)
}

// Shared implements [storeapi.Sharer]. It reports whether any shard is shared.
func (s *Store) Shared() bool {
	m := s.Map()
	for _, name := range m.all() {
		shard, err := s.atlas.shard(name)
		if err != nil {
			return true
		}
		if inner, ok := shard.(storeapi.Sharer); ok && inner.Shared() {
			return true
		}
	}
	return false
}

// Keeps implements [storeapi.Keeper]. It checks each shard.
func (s *Store) Keeps(ctx context.Context) error {
	m := s.Map()
	for _, name := range m.all() {
		shard, err := s.atlas.shard(name)
		if err != nil {
			return err
		}
		keeper, ok := shard.(storeapi.Keeper)
		if !ok {
			return errors.ErrUnsupported
		}
		if err := keeper.Keeps(ctx); err != nil {
			return fmt.Errorf("shardstore: shard %q: %w", name, err)
		}
	}
	return nil
}
