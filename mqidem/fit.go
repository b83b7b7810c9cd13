package mqidem

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// What [Reason].Cut says.
const (
	CutHeaders = "headers" // all headers of the producer
	CutBody    = "body"    // the end of the body, or all of it, and the headers
)

// ErrCut: a part of the message was left out when it was parked, since its broker took it no
// larger. It cannot be put back: have its producer send it again, and discard this one.
var ErrCut = errors.New("mqidem: a part of this message was left out when it was parked, since its broker took it no larger; " +
	"have its producer send it again, and discard this one")

// Fit writes a message into a parking queue in the largest form that its broker takes, for what
// implements [Delivery].Dead: a message that cannot be parked would be in its consumer's hands for
// ever. First the text of the error goes, then what the reason says of the record, then the
// headers, then the end of the body, half of it and more; [Reason].Cut, Size and SHA256 tell of it.
//
// write is called with the packed reason, again as long as its error is one of which tooLarge is
// true. Where m is another message than the one that was given, its parts are those to write.
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
		func() { why = Reason{Why: why.Why, Tries: why.Tries, At: why.At, Redrives: why.Redrives} },
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
	return fmt.Errorf("mqidem: the parking queue takes no message at all: %w", err)
}
