package token_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestKeyIsFrozen: a later build finds the tokens that this one has issued.
func TestKeyIsFrozen(t *testing.T) {
	t.Parallel()
	s := newStore()
	text := issueToken(t, token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), nil), "änn")
	var key storeapi.StoreKey
	assert.NoError(t, key.UnmarshalText([]byte("app/token/%C3%A4nn/token/"+text)), "key")
	rec, err := s.Lookup(t.Context(), key)
	assert.NoError(t, err, "look")
	assert.Equal(t, rec.State, storeapi.StateIssued, "the record of a token")
}
