package mqidem

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// The values of [Reason].Cut.
const (
	CutHeaders = "headers" // all headers of the producer
	CutBody    = "body"    // the end of the body, or all of it, and the headers
	CutReason  = "reason"  // what the reason says about the record
)

// ErrCut means that a part of the message was left out of the dead letter, because the broker
// refused a larger message. It cannot be redriven: have its producer send it again, and discard
// this one.
var ErrCut = errors.New("mqidem: a part of this message was left out when it became a dead letter, since its broker took it no larger; " +
	"have its producer send it again, and discard this one")

// Fit writes a message to a dead-letter queue in the largest form that the broker accepts.
// Implementations of [Delivery].Dead use it: a consumer would hold a message for ever if it could
// not be dead-lettered. Fit leaves out the text of the error first, then what the reason says about
// the record, then the headers, then half of the body and more, from the end. [Reason].Cut, Size
// and SHA256 describe what is missing.
//
// Fit calls write with the packed reason, again with a smaller form as long as tooLarge reports
// true for the error. If m is not the original message, write must use the parts of m.
func Fit(m *Message, why Reason, tooLarge func(error) bool, write func(m *Message, reason []byte) error) error {
	once := func(m *Message, why Reason) error {
		packed, err := why.Pack()
		if err != nil {
			return err
		}
		return write(m, packed)
	}
	err := once(m, why)
	if err == nil || !tooLarge(err) {
		return err
	}
	forms := []func(){
		func() { why.Error = "" },
		func() {
			cut := ""
			if why.Key != "" {
				cut = CutReason // without the key of its record it would come back as a duplicate
			}
			why = Reason{Why: why.Why, Tries: why.Tries, At: why.At, Redrives: why.Redrives, Cut: cut}
		},
		func() {
			sum := sha256.Sum256(m.Body)
			why.Cut, why.Size, why.SHA256 = CutHeaders, len(m.Body), hex.EncodeToString(sum[:])
			part := *m
			part.Headers = nil
			m = &part
		},
	}
	for n := len(m.Body) / 2; len(m.Body) > 0; n /= 2 {
		forms = append(forms, func() {
			why.Cut = CutBody
			m.Body = m.Body[:n:n]
		})
		if n == 0 {
			break
		}
	}
	forms = append(forms, func() { m.ID, m.Key, m.ContentType = "", "", "" })
	for _, smaller := range forms {
		smaller()
		if err = once(m, why); err == nil || !tooLarge(err) {
			return err
		}
	}
	return fmt.Errorf("mqidem: the dead-letter queue takes no message at all: %w", err)
}
