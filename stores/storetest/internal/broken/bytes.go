package broken

import (
	"strings"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// byteMistakes are mistakes in the bytes of keys and answers.
func byteMistakes() []Broken {
	id := func(change func(string) string) func(*rules) {
		return func(r *rules) {
			r.key = func(k storeapi.StoreKey) storeapi.StoreKey {
				k.ID = change(k.ID)
				return k
			}
		}
	}
	answer := func(change func(*storeapi.Answer)) func(*rules) {
		return func(r *rules) {
			r.changeRecord = func(rec storeapi.Record) storeapi.Record {
				if rec.State.Finished() {
					change(&rec.Answer)
				}
				return rec
			}
		}
	}
	return []Broken{
		withRule("the key is cut at 64 bytes", "S10", id(func(s string) string { return s[:min(len(s), 64)] })),
		withRule("the key is cut at 255 bytes", "S10", id(func(s string) string { return s[:min(len(s), 255)] })),
		withRule("upper and lower case are one key", "S10", id(strings.ToLower)),
		withRule("spaces at the end are trimmed", "S10", id(func(s string) string { return strings.TrimRight(s, " ") })),
		withRule("the key ends at a zero byte", "S10", id(func(s string) string { s, _, _ = strings.Cut(s, "\x00"); return s })),
		withRule("the key is made valid UTF-8", "S10", id(func(s string) string { return strings.ToValidUTF8(s, "\ufffd") })),
		withRule("a part that is too long is cut", "S10", func(r *rules) {
			r.valid = func(k storeapi.StoreKey) error {
				k.ID = k.ID[:min(len(k.ID), storeapi.MaxPart)]
				return k.Validate()
			}
			id(func(s string) string { return s[:min(len(s), storeapi.MaxPart)] })(r)
		}, "S4"),
		withRule("the parts of the key are joined", "S10", func(r *rules) {
			r.key = func(k storeapi.StoreKey) storeapi.StoreKey {
				return storeapi.StoreKey{Key: storeapi.Key{ID: strings.Join([]string{k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID}, "/")}}
			}
		}),
		withRule("an empty answer is nil", "S10", answer(func(a *storeapi.Answer) {
			if len(a.Body) == 0 {
				a.Body = nil
			}
		})),
		withRule("a nil answer is empty", "S10", answer(func(a *storeapi.Answer) { a.Body = append([]byte{}, a.Body...) })),
		withRule("an answer that is not kept is told as empty", "S10", answer(func(a *storeapi.Answer) { a.Kept = true }), "S3"),
		withRule("an answer is made valid UTF-8", "S3", answer(func(a *storeapi.Answer) {
			if a.Body != nil {
				a.Body = append([]byte{}, strings.ToValidUTF8(string(a.Body), "\ufffd")...)
			}
		}), "S10"),
		withRule("an answer is cut at 1 MiB", "S10", answer(func(a *storeapi.Answer) { a.Body = a.Body[:min(len(a.Body), 1<<20)] })),
		withRule("bytes that were given are kept", "S10", func(r *rules) { r.keepsGiven = true }, "S19"),
		withRule("bytes that are kept are given away", "S10", func(r *rules) { r.givesKept = true }),
	}
}
