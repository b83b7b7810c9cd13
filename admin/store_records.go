package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Records finds, lists and resolves the records of a store. Its methods can be called concurrently.
type Records struct {
	store  storeapi.Store
	lister storeapi.Lister
	o      RecordsOptions
	refs   *references

	mu      sync.Mutex
	engines map[[2]string]*retrysafe.Engine // by namespace and layer
	// namespaces whose secret was compared for a listing
	secretChecked map[string]bool
}

// RecordsOptions configure [Records]. A nil *RecordsOptions and zero fields mean the defaults.
type RecordsOptions struct {
	// Secret is that of the service, [retrysafe.Options].Secret: the hashes of keys depend on it.
	// Default: none, as for a service without one. References to records then change at each start.
	Secret []byte
	// Logger gets the warnings of the engine. Default: none.
	Logger *slog.Logger
}

// maxEngines bounds the pairs of namespace and layer whose engines are kept.
const maxEngines = 256

// NewRecords returns the Records of s. The error says that the store cannot list its records, or
// that the secret cannot be used. It never removes expired records.
func NewRecords(s storeapi.Store, options *RecordsOptions) (*Records, error) {
	var o RecordsOptions
	if options != nil {
		o = *options
	}
	lister, ok := s.(storeapi.Lister)
	if !ok {
		return nil, errors.New("admin: this store cannot list its records")
	}
	if err := (&retrysafe.Options{Secret: o.Secret}).Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Records{
		store: s, lister: lister, o: o, refs: newReferences(o.Secret),
		engines: make(map[[2]string]*retrysafe.Engine), secretChecked: make(map[string]bool),
	}, nil
}

// Engine returns an engine on the namespace and layer of k.
func (d *Records) Engine(k storeapi.StoreKey) *retrysafe.Engine {
	of := [2]string{k.Namespace, k.Layer}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.engines[of]; e != nil {
		return e
	}
	if len(d.engines) >= maxEngines {
		clear(d.engines) // they hold nothing that would be lost
	}
	o := &retrysafe.Options{Namespace: k.Namespace, Secret: d.o.Secret, Sweep: -1, Logger: d.o.Logger}
	d.engines[of] = retrysafe.New(d.store, o).Layer(k.Layer)
	return d.engines[of]
}

// Hash returns the name of a record for people: 16 hex digits. It is the one that the service logs.
func (d *Records) Hash(k storeapi.StoreKey) string { return d.Engine(k).KeyHash(k.Key) }

// Lookup returns the record of a key with its answer, or [retrysafe.ErrNotFound].
func (d *Records) Lookup(ctx context.Context, k storeapi.StoreKey) (retrysafe.Record, error) {
	return d.Engine(k).Lookup(ctx, k.Key)
}

// Resolve resolves a record; see [retrysafe.Engine.Resolve].
func (d *Records) Resolve(ctx context.Context, k storeapi.StoreKey, r retrysafe.Resolution) error {
	return d.Engine(k).Resolve(ctx, k.Key, r)
}

// Each calls see with the records that req selects, page by page, until see returns false.
// onPage, which may be nil, is called with each page before its records: it says how many records
// were read, and which of them this build cannot read. Pages have req.Limit records, by default
// 1000.
func (d *Records) Each(ctx context.Context, req storeapi.ListRequest, see func(*retrysafe.Record) bool, onPage func(*storeapi.Page)) error {
	if req.Limit == 0 {
		req.Limit = 1000
	}
	for {
		page, err := d.lister.List(ctx, req)
		if err != nil {
			return err
		}
		if onPage != nil {
			onPage(&page)
		}
		for i := range page.Records {
			if !see(&page.Records[i]) {
				return nil
			}
		}
		if req.After = page.Next; page.Next == "" {
			return nil
		}
	}
}

// ErrAmbiguous says that several records have one hash, or one key of a client. The error is an
// [AmbiguousError].
var ErrAmbiguous = errors.New("name the record by its hash, or narrow the search by tenant, operation, namespace or layer")

// IsHash reports whether name has the form of Hash.
func IsHash(name string) bool {
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// Find is FindIn among the records that req selects.
func (d *Records) Find(ctx context.Context, name string, req storeapi.ListRequest, progress func(read int)) (storeapi.StoreKey, error) {
	return d.FindIn(ctx, name, Selection{ListRequest: req}, progress)
}

// FindIn returns the key that name stands for: the text of a key
// ([storeapi.StoreKey.MarshalText]), a hash, or else a key that a client sent. The last two have to
// be searched among all records that sel selects; progress, which may be nil, is called with the
// number that was read, after each page. The errors are [retrysafe.ErrNotFound] and
// [AmbiguousError], and those of the store. If no record was found by a hash or among the records
// of a caller, and a namespace was used with another secret than that of d, the error also wraps
// [retrysafe.ErrSecretChanged].
func (d *Records) FindIn(ctx context.Context, name string, sel Selection, progress func(read int)) (key storeapi.StoreKey, err error) {
	if key.UnmarshalText([]byte(name)) == nil {
		return key, nil
	}
	req := sel.ListRequest
	found, read := AmbiguousError{what: "hash"}, 0
	seen := map[string]bool{req.Namespace: true}
	named := func(rec *retrysafe.Record) bool { return d.Hash(rec.Key) == name }
	if !IsHash(name) {
		found.what = "key"
		named = func(rec *retrysafe.Record) bool { // the ids of reserved layers are no client's
			return rec.Key.ID == name && (!isReservedLayer(rec.Key.Layer) || req.Layer == rec.Key.Layer)
		}
	}
	err = d.Each(ctx, req, func(rec *retrysafe.Record) bool {
		seen[rec.Key.Namespace] = true
		switch {
		case !named(rec) || !sel.Selects(rec):
		case len(found.Records) < mostCandidates:
			found.Records = append(found.Records, *rec)
		default:
			found.More = true
		}
		return !found.More
	}, func(page *storeapi.Page) {
		if read += page.Read; progress != nil {
			progress(read)
		}
	})
	switch {
	case err != nil:
		return key, err
	case len(found.Records) == 0:
		if err := d.findOtherSecret(ctx, seen); err != nil && (IsHash(name) || sel.Tenants != nil) {
			return key, fmt.Errorf("%w: no record has the %s %q: %w", retrysafe.ErrNotFound, found.what, name, err)
		}
		return key, fmt.Errorf("%w: no record has the %s %q; is the secret the one of the service?", retrysafe.ErrNotFound, found.what, name)
	case len(found.Records) > 1:
		return key, &found
	}
	return found.Records[0].Key, nil
}
