package admin

import (
	"testing"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func TestReference(t *testing.T) {
	r := newReferences([]byte("0123456789abcdef"))
	k := storeapi.StoreKey{Namespace: "n", Layer: "http", Key: storeapi.Key{Tenant: "t", Operation: "POST /x", ID: "\x00\xff"}}
	name, err := r.nameRecord(k)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.recordKey(name); err != nil || got != k {
		t.Errorf("key of %s: %v, %v", name, got, err)
	}
	if again, _ := newReferences([]byte("0123456789abcdef")).nameRecord(k); again != name {
		t.Error("another process of the secret has another name")
	}
	if _, err := newReferences([]byte("another secret, 16")).recordKey(name); err == nil {
		t.Error("another secret opens the name")
	}
	other := k
	other.ID = "\x00\xfe"
	if n, _ := r.nameRecord(other); n[:16] == name[:16] {
		t.Error("two keys have one nonce")
	}
}

func FuzzReference(f *testing.F) {
	r := newReferences([]byte("0123456789abcdef"))
	name, _ := r.nameRecord(storeapi.StoreKey{Namespace: "n", Layer: "http", Key: storeapi.Key{Operation: "o", ID: "i"}})
	f.Add(name)
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := r.recordKey(text); err == nil && text != name {
			t.Errorf("a made-up name opens as %#v", k)
		}
	})
}
