// Package secretvalue is the check value of a secret: a record of each namespace from which a
// process learns whether it has the secret that the others have. docs/formats.md describes it.
package secretvalue

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Layer is the layer of the record.
const Layer = "secret"

// cause is the cause of the record. It also tells what the record is.
const cause = "secret"

// text is what the value is the HMAC of. No digest of the engine begins like it.
const text = "retrysafe check value of the secret 1\n"

// Key returns the key of the record of a namespace.
func Key(namespace string) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: namespace, Layer: Layer, Key: storeapi.Key{Operation: "secret", ID: "check"}}
}

// Of returns the value for a secret: an HMAC-SHA-256, or a plain SHA-256 without a secret.
func Of(secret []byte) []byte {
	if len(secret) == 0 {
		sum := sha256.Sum256([]byte(text))
		return sum[:]
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// Write returns the call that writes the value for a secret in place of rec, which is what Lookup
// has returned for the key. The claim is finished as it is made: a store writes that in one call,
// which a process cannot leave half done, and only if the record has not changed. A store never
// replaces a completed record, so the state is failed.
//
// The value is the binding of the record, so there is nothing that sealstore would seal, and
// commands can compare it without the master keys.
func Write(rec *storeapi.Record, namespace string, secret []byte, owner storeapi.Owner, limit time.Duration) storeapi.AcquireRequest {
	req := storeapi.AcquireRequest{
		Key: Key(namespace), Owner: owner, Lease: time.Second, Retention: storeapi.Forever, OnDoubt: storeapi.Refuse, NotAfter: rec.Now.Add(limit),
		Binding: Of(secret), Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: "none"}, Cause: cause},
	}
	if rec.State != 0 {
		req.IfFence = rec.Fence
	}
	return req
}

// ErrRecord means that the record of the value has another form than this build writes.
var ErrRecord = errors.New("the record with the check value of the secret cannot be read by this build; update this program, or look at the record with \"retrysafe keys list --layer secret\"")

// Compare compares the record with a secret. It returns "" if it is the value for that secret, and
// otherwise what is different.
func Compare(rec *storeapi.Record, secret []byte) (difference string, err error) {
	if rec.State != storeapi.StateFailed || rec.Cause != cause || len(rec.Binding) != sha256.Size {
		return "", ErrRecord
	}
	namespace := rec.Key.Namespace
	switch {
	case hmac.Equal(rec.Binding, Of(secret)):
		return "", nil
	case len(secret) == 0:
		return fmt.Sprintf("namespace %q was used with a secret, and this process has none", namespace), nil
	case hmac.Equal(rec.Binding, Of(nil)):
		return fmt.Sprintf("namespace %q was used without a secret, and this process has one", namespace), nil
	}
	return fmt.Sprintf("namespace %q was used with another secret than the one of this process", namespace), nil
}
