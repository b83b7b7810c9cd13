package retrysafe

import "github.com/retrysafe/retrysafe/storeapi"

// MaxPart is the maximum length of one part of a key, in bytes. A longer part is refused with
// [ErrInvalidKey] and never truncated: a truncated key would make two payments one. Pass values
// that may be longer, such as a path or a message id, through [KeyPart].
const MaxPart = storeapi.MaxPart

// Key identifies a call by who makes it (Tenant), which operation it is for (Operation), and which
// call it is (ID). All three are strings of any bytes, with at most [MaxPart] of them:
//
//	k := retrysafe.Key{Tenant: "shop-7", Operation: "charge", ID: r.Header.Get("Idempotency-Key")}
//
// Tenant keeps one caller from reading another's answer; it may be empty if there is only one. ID
// is the client's key, a message id, or a digest of business parameters. A key may be a secret, so
// its String and LogValue show only the operation.
type Key = storeapi.Key

// KeyPart returns s as a part of a key, however long it is: s itself if it has at most [MaxPart]
// bytes, otherwise its digest "~sha256.<hex>". A short s that itself looks like such a digest is
// digested too, so that no caller can name the digest of another's value.
func KeyPart(s string) string { return storeapi.KeyPart(s) }
