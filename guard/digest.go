package guard

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/retrysafe/retrysafe"
)

// DigestLen is how many characters a digest has.
const DigestLen = 2 * sha256.Size

const digestPrefix = "retrysafe guard 1\n"

// Digest is what a key column keeps: the SHA-256 of "retrysafe guard 1\n" and the key's text, in 64
// lower-case hexadecimal digits. The key itself is in no table, since who knows it may be told its
// answer. Inserts that are not a guard's own write it by this.
//
// Declare the column VARCHAR(64), or TEXT on PostgreSQL and SQLite, and let it be NULL for rows
// that no request has written.
func Digest(by retrysafe.Key) (string, error) { return digestFor(by, "") }

// digestFor is the digest of a key as one guard uses it: use says for what, and ends with a line's
// end. A request with one key may change a row by several guards, and none of them may take what
// another has written for its own.
func digestFor(by retrysafe.Key, use string) (string, error) {
	text, err := by.MarshalText()
	if err != nil {
		return "", &failure{ErrMisuse, err, ErrMisuse.Error() + ": the key of the request is not good: " + err.Error()}
	}
	b := make([]byte, 0, 256)
	sum := sha256.Sum256(append(append(append(b, digestPrefix...), use...), text...))
	return hex.EncodeToString(sum[:]), nil
}
