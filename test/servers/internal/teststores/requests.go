package teststores

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// OrderStoreKey returns the store key under which Engine and ShortEngine keep OrderKey.
func OrderStoreKey(id string) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: OrderKey(id)}
}

// Nothing is work without an effect.
func Nothing(context.Context) error { return nil }

// Request returns a claim of a key with its own owner.
func Request(id string) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key:   storeapi.StoreKey{Namespace: "integration", Layer: "fn", Key: retrysafe.Key{Operation: "charge", ID: id}},
		Owner: Owner(id), Lease: time.Minute, Retention: time.Hour, OnDoubt: retrysafe.Refuse,
	}
}

// Owner returns an owner that is made of name.
func Owner(name string) (o storeapi.Owner) {
	copy(o[:], fmt.Sprintf("%16s", name))
	return o
}

// OrderKey returns the key of an order.
func OrderKey(id string) retrysafe.Key { return retrysafe.Key{Operation: "order", ID: id} }

// TxRequest returns a transaction's claim of a key with its own owner. It does not wait.
func TxRequest(id string) storeapi.TxRequest {
	return storeapi.TxRequest{
		Key:   storeapi.StoreKey{Namespace: "integration", Layer: "tx", Key: retrysafe.Key{Operation: "order", ID: id}},
		Owner: Owner(id), Retention: time.Hour, Wait: -1,
	}
}

// NoEffect is the work of a transaction that changes nothing and completes.
func NoEffect(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error) {
	return retrysafe.StateCompleted, retrysafe.Answer{Codec: "raw", Body: []byte("done"), Kept: true}, nil
}
