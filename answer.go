package retrysafe

import (
	"crypto/sha256"
	"errors"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Answer is the answer that duplicates get: the name of its codec and its body, or the size and
// digest of one that was too large to store.
type Answer = storeapi.Answer

// MaxStored is the largest answer that every store accepts, in bytes: 1 MiB for a body and 64 KiB
// for what is stored with it.
const MaxStored = storeapi.MaxStored

// unkept returns an error for an answer whose body would be dropped silently.
func unkept(a *Answer) error {
	if a.Body != nil && !a.Kept && a.Size == 0 { // a size says that the answer was too large
		return errors.New("retrysafe: the answer has a body and Kept is false, so that repeats would not get it; set Kept, or leave the body out")
	}
	return nil
}

// limited returns a, or a description of it without the body if the body is larger than most.
func limited(a Answer, most int64) Answer {
	if !a.Kept || int64(len(a.Body)) <= most {
		return a
	}
	return Answer{Codec: a.Codec, Size: int64(len(a.Body)), Digest: sha256.Sum256(a.Body)}
}
