package mqidem

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Why a message became a dead letter.
const (
	// DeadTries means that the message used up its tries.
	DeadTries = "tries"
	// DeadPoison means that the handler can never succeed; see [Poison].
	DeadPoison = "poison"
	// DeadRefused means that the handler refused the message for good; see retrysafe.Permanent.
	DeadRefused = "refused"
	// DeadNoID means that the message has no id.
	DeadNoID = "no-id"
	// DeadTooLarge means that the body is larger than [Options].MaxBody.
	DeadTooLarge = "too-large"
	// DeadInDoubt means that an earlier try may have taken effect and the policy is
	// retrysafe.Refuse.
	DeadInDoubt = "in-doubt"
	// DeadMismatch means that the id was used with another content or credential.
	DeadMismatch = "mismatch"
	// DeadUnreadable means that the dead letter has no readable reason.
	DeadUnreadable = "unreadable"
)

// Reason says why a message became a dead letter, and where its record is.
type Reason struct {
	// Why is one of the constants above.
	Why string `json:"why"`
	// Error is the text of the last error, at most 1 KiB. It is for operators.
	Error string `json:"error,omitempty"`
	// Tries is how often the work was tried since the record was last reopened.
	Tries int `json:"tries,omitempty"`
	// Consumer is the name that was given to [Once]. Empty if the handler keeps no record.
	Consumer string `json:"consumer,omitempty"`
	// Key is the key of the record, as storeapi.StoreKey.MarshalText writes it. Empty if there is
	// no record.
	Key string `json:"key,omitempty"`
	// Until is the earliest time at which that record can expire; zero means never.
	Until time.Time `json:"until,omitzero"`
	// Source is the queue that the message came from.
	Source string `json:"source"`
	// At is when the message became a dead letter, on the consumer's clock.
	At time.Time `json:"at"`
	// Redrives is how often it had been redriven before.
	Redrives int `json:"redrives,omitempty"`
	// Cut says what was left out because the broker refused a larger message: [CutReason],
	// [CutHeaders], [CutBody], or empty for nothing. For the last two, Size and SHA256 (in hex) are
	// those of the whole body.
	Cut    string `json:"cut,omitempty"`
	Size   int    `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

const (
	maxReasonText = 1 << 10
	maxReason     = 32 << 10
)

// Pack returns the text of [HeaderDead]: JSON in ASCII, at most 32 KiB.
func (r Reason) Pack() ([]byte, error) {
	r.Error = clipText(r.Error, maxReasonText)
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("mqidem: pack a reason: %w", err)
	}
	b = escapeNonASCII(b)
	if len(b) > maxReason {
		return nil, fmt.Errorf("mqidem: a reason of %d bytes, at most %d are allowed; use shorter names for consumer and queue", len(b), maxReason)
	}
	return b, nil
}

var errReason = errors.New("mqidem: the reason of a dead letter cannot be read: it was not written by this package, or its header was changed")

// ParseReason parses what Pack returned.
func ParseReason(b []byte) (r Reason, err error) {
	if len(b) == 0 || len(b) > maxReason || json.Unmarshal(b, &r) != nil || r.Why == "" || r.Redrives < 0 || r.Tries < 0 {
		return Reason{}, errReason
	}
	return r, nil
}

// clipText cuts a text to at most n bytes, between two characters.
func clipText(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// escapeNonASCII escapes all other characters, since headers of some brokers only accept ASCII.
func escapeNonASCII(packed []byte) []byte {
	var b strings.Builder
	for _, c := range string(packed) {
		switch {
		case c < 0x7F:
			b.WriteRune(c)
		case c > 0xFFFF:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+c>>10, 0xDC00+c&0x3FF)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return []byte(b.String())
}
