package secretvalue_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/secretvalue"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestSecretFormat: the record and its value are frozen, since another build reads them. The values
// are those of: printf 'retrysafe check value of the secret 1\n' | openssl sha256 [-hmac SECRET].
func TestSecretFormat(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for secret, want := range map[string]string{
		"":                       "f8c912c99538b475687a0592cb325025cd814a331300f083298b7e304e499fe9",
		"the secret of the shop": "1b3895dd9010d32d2887581621224873862c7e1fdbb8994f3682bb6ccfd3202e",
	} {
		assert.Equal(t, hex.EncodeToString(secretvalue.Of([]byte(secret))), want, "value of %q", secret)
		req := secretvalue.Write(&storeapi.Record{Now: now}, "shop", []byte(secret), storeapi.Owner{1}, time.Second)
		text, err := req.Key.MarshalText()
		assert.NoError(t, err, "key")
		assert.Equal(t, string(text), "shop/secret//secret/check", "key")
		f := req.Finish
		assert.Equal(t, hex.EncodeToString(req.Binding), want, "binding")
		assert.Equal(t, []any{f.State, f.Cause, f.Answer.Codec, f.Answer.Body == nil, f.Answer.Kept, req.Retention, req.IfFence},
			[]any{storeapi.StateFailed, "secret", "none", true, false, storeapi.Forever, storeapi.Fence(0)}, "record")
	}
	next := secretvalue.Write(&storeapi.Record{State: storeapi.StateFailed, Attempt: 3, Fence: 7, Now: now}, "shop", nil, storeapi.Owner{1}, time.Second)
	assert.Equal(t, next.IfFence, storeapi.Fence(7), "one that replaces another")
}

// TestForeignRecords: a record of another form is an error, and never a match.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	secret := []byte("the secret of the shop")
	good := func() storeapi.Record {
		return storeapi.Record{Key: secretvalue.Key("shop"), State: storeapi.StateFailed, Cause: "secret", Binding: secretvalue.Of(secret)}
	}
	r := good()
	difference, err := secretvalue.Compare(&r, secret)
	assert.True(t, difference == "" && err == nil, "the record: %q, %v", difference, err)
	for name, change := range map[string]func(*storeapi.Record){
		"completed": func(r *storeapi.Record) { r.State = storeapi.StateCompleted }, "in progress": func(r *storeapi.Record) { r.State = storeapi.StateInProgress },
		"another cause": func(r *storeapi.Record) { r.Cause = "" }, "a short value": func(r *storeapi.Record) { r.Binding = r.Binding[:16] },
		"no value": func(r *storeapi.Record) { r.Binding = nil },
	} {
		r := good()
		change(&r)
		_, err := secretvalue.Compare(&r, secret)
		assert.ErrorIs(t, err, secretvalue.ErrRecord, "%s", name)
	}
}
