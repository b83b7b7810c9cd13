package guard

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/retrysafe/retrysafe"
)

// DigestLen is the number of characters in a digest.
const DigestLen = 2 * sha256.Size

const digestPrefix = "retrysafe guard 1\n"

// Digest returns what a key column stores: the SHA-256 of "retrysafe guard 1\n" and the key's text,
// as 64 lower-case hexadecimal digits. No table stores the key itself, because a caller that knows
// a key may get its answer. Use Digest to fill the key column in your own INSERT statements.
//
// Declare the column VARCHAR(64), or TEXT on PostgreSQL and SQLite. Allow NULL for rows that no
// request has written.
func Digest(by retrysafe.Key) (string, error) { return digestFor(by, "") }

// digestFor returns the digest of a key for one guard. use names the guard's purpose and ends with
// a newline. A request with one key may change a row through several guards, and no guard may
// mistake another's digest for its own.
func digestFor(by retrysafe.Key, use string) (string, error) {
	text, err := by.MarshalText()
	if err != nil {
		return "", &failure{ErrMisuse, err, ErrMisuse.Error() + ": the key of the request is not good: " + err.Error()}
	}
	b := make([]byte, 0, 256)
	sum := sha256.Sum256(append(append(append(b, digestPrefix...), use...), text...))
	return hex.EncodeToString(sum[:]), nil
}
