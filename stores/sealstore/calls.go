package sealstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Acquire implements [storeapi.Store]. The tenant's data key is read before the inner store is
// asked: work whose answer could not be sealed does not begin.
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	noKey, err := s.sealAcquire(ctx, &req)
	if err != nil {
		return storeapi.Acquired{}, err
	}
	got, err := s.inner.Acquire(ctx, req)
	if err == nil {
		err = s.openAcquired(ctx, &got, noKey)
	}
	return got, err
}

// sealAcquire makes req the request for the inner store. noKey is set if the tenant has no data
// key, and the request may be answered nevertheless, but not granted.
func (s *Store) sealAcquire(ctx context.Context, req *storeapi.AcquireRequest) (noKey, err error) {
	if err := checkKey(&req.Key); err != nil {
		return nil, err
	}
	if req.Finish != nil && hasNothingToSeal(&req.Finish.Answer) {
		return nil, nil // nothing is sealed, now or later
	}
	k, err := s.sealingKey(ctx, tenantOf(&req.Key))
	if err != nil {
		// A duplicate of finished work needs no key.
		if req.Finish == nil && isPermanent(err) && s.isFinished(ctx, req.Key) {
			return err, nil
		}
		return nil, fmt.Errorf("sealstore: the tenant has no data key, so its answers could not be sealed: %w", err)
	}
	if req.Finish != nil {
		sealed := *req.Finish
		sealed.Answer = sealAnswer(k, &req.Key, kindOf(sealed.State), &sealed.Answer)
		req.Finish = &sealed
	}
	return nil, nil
}

// openAcquired opens the record that a claim found. If the record has expired since sealAcquire
// looked at it, the claim may be granted without a data key: after an error the caller gives it
// back.
func (s *Store) openAcquired(ctx context.Context, got *storeapi.Acquired, noKey error) error {
	if noKey != nil && got.Status == storeapi.StatusAcquired {
		return keysFailed(noKey)
	}
	return s.openRecord(ctx, &got.Record)
}

// isFinished reports whether the record of a key is finished.
func (s *Store) isFinished(ctx context.Context, key storeapi.StoreKey) bool {
	rec, err := s.inner.Lookup(ctx, key)
	return err == nil && rec.State.Finished()
}

// checkKey refuses the records of data keys.
func checkKey(key *storeapi.StoreKey) error {
	if key.Namespace == Namespace {
		return fmt.Errorf("%w: the namespace %q is that of data keys", storeapi.ErrInvalidKey, Namespace)
	}
	return key.Validate()
}

// keysFailed is the error of a call that may have been applied, or may be repeated, while Keys does
// not answer. It does not wrap err, which could say that the call was not applied.
func keysFailed(err error) error {
	return fmt.Errorf("%w: sealstore: the data key of the tenant cannot be read: %s", storeapi.ErrUnavailable, err.Error())
}

// sealForTenant returns the sealed form of an answer.
func (s *Store) sealForTenant(ctx context.Context, key *storeapi.StoreKey, kind string, a *storeapi.Answer) (storeapi.Answer, error) {
	if hasNothingToSeal(a) {
		return *a, nil
	}
	k, err := s.sealingKey(ctx, tenantOf(key))
	if err != nil {
		return storeapi.Answer{}, keysFailed(err)
	}
	return sealAnswer(k, key, kind, a), nil
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	req, err := s.sealExtend(ctx, req)
	if err != nil {
		return err
	}
	return s.inner.Extend(ctx, req)
}

func (s *Store) sealExtend(ctx context.Context, req storeapi.ExtendRequest) (storeapi.ExtendRequest, error) {
	if err := checkKey(&req.Key); err != nil || req.Progress == nil {
		return req, err
	}
	sealed, err := s.sealForTenant(ctx, &req.Key, forProgress, req.Progress)
	req.Progress = &sealed
	return req, err
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	sealed, err := s.sealComplete(ctx, req)
	if err != nil {
		return storeapi.Record{}, err
	}
	rec, err := s.inner.Complete(ctx, sealed)
	if err != nil {
		return rec, err
	}
	return s.openCompleted(ctx, rec, &sealed.Answer, &req.Answer)
}

func (s *Store) sealComplete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.CompleteRequest, error) {
	if err := checkKey(&req.Key); err != nil {
		return req, err
	}
	var err error
	req.Answer, err = s.sealForTenant(ctx, &req.Key, kindOf(req.State), &req.Answer)
	return req, err
}

// openCompleted returns the record of a call that ends an attempt. If the record has the answer
// that the call has sealed, there is nothing to open.
func (s *Store) openCompleted(ctx context.Context, rec storeapi.Record, sealed, plain *storeapi.Answer) (storeapi.Record, error) {
	if !sameBox(&rec, sealed) {
		err := s.openRecord(ctx, &rec)
		return rec, err
	}
	s.openText(ctx, &rec)
	rec.Answer = *plain
	rec.Answer.Body = bytes.Clone(plain.Body)
	return rec, nil
}

// Release implements [storeapi.Store]. If the text of the error cannot be sealed now, it is left
// out: a key must not stay acquired for it.
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	req, err := s.sealRelease(ctx, req)
	if err != nil {
		return err
	}
	return s.inner.Release(ctx, req)
}

func (s *Store) sealRelease(ctx context.Context, req storeapi.ReleaseRequest) (storeapi.ReleaseRequest, error) {
	if err := checkKey(&req.Key); err != nil || req.LastError == "" {
		return req, err
	}
	k, err := s.sealingKey(ctx, tenantOf(&req.Key))
	if err != nil {
		req.LastError = hiddenText
		return req, nil //nolint:nilerr // as documented
	}
	req.LastError = sealText(k, &req.Key, req.LastError)
	return req, nil
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	if err := checkKey(&key); err != nil {
		return storeapi.Record{}, err
	}
	rec, err := s.inner.Lookup(ctx, key)
	if err == nil {
		err = s.openRecord(ctx, &rec)
	}
	return rec, err
}

// openRecord opens what a record has, in place. An error means that Keys does not answer.
func (s *Store) openRecord(ctx context.Context, rec *storeapi.Record) error {
	s.openText(ctx, rec)
	a := &rec.Answer
	switch {
	case !a.Sealed() && (hasNothingToSeal(a) || !s.onlySealed):
		return nil
	case !a.Sealed():
		s.reportUnopened(rec, errNeverSealed)
		*a = storeapi.Answer{Codec: storeapi.SealedPrefix + a.Codec, Size: a.Size}
		return nil
	}
	shell := storeapi.Answer{Codec: a.Codec[len(storeapi.SealedPrefix):], Kept: a.Kept, Size: a.Size}
	if a.Body == nil {
		// The inner store had no room for it. Its Size and Digest are those of the sealed form.
		shell.Kept = false
		*a = shell
		return nil
	}
	id, box, err := parseSealed(a.Body)
	if err == nil {
		var k *dataKey
		if k, err = s.openingKey(ctx, tenantOf(&rec.Key), id); err == nil {
			shell, err = openAnswer(k, &rec.Key, kindOf(rec.State), shell, box)
		}
	}
	switch {
	case err == nil:
		*a = shell
		return nil
	case isPermanent(err):
		s.reportUnopened(rec, err)
		a.Kept = false
		return nil
	}
	return keysFailed(err)
}

// openText opens the text of the error. If that fails, the record has hiddenText.
func (s *Store) openText(ctx context.Context, rec *storeapi.Record) {
	id, box, ok := parseText(rec.LastError)
	if !ok {
		return
	}
	k, err := s.openingKey(ctx, tenantOf(&rec.Key), id)
	var text []byte
	if err == nil {
		text, err = openBox(box, &k.key, associatedData(&rec.Key, forError, &storeapi.Answer{}))
	}
	rec.LastError = string(text)
	if err != nil {
		rec.LastError = hiddenText
		if isPermanent(err) {
			s.reportUnopened(rec, err)
		}
	}
}

func (s *Store) reportUnopened(rec *storeapi.Record, why error) {
	s.onUnopened(rec.Key, fmt.Errorf("sealstore: what a record of %s has cannot be opened: %w", tenantOf(&rec.Key).keyOwner(), why))
}

// errTooFewAnswers stands for the result of a call that a batch of the inner store has not
// answered.
var errTooFewAnswers = errors.New("sealstore: the inner store has answered fewer calls than the batch has")
