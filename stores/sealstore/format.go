package sealstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// What a box is for. A box for one of them cannot be opened as another.
const (
	forCompleted = "completed"
	forFailed    = "failed"
	forProgress  = "progress"
	forError     = "error"
)

// kindOf returns what the answer of a record in a state is.
func kindOf(s storeapi.State) string {
	switch s {
	case storeapi.StateCompleted:
		return forCompleted
	case storeapi.StateFailed:
		return forFailed
	}
	return forProgress
}

// sealedVersion is the version of the form of sealed bytes: it, the id of the data key, and a box.
const sealedVersion = 1

// The first byte of the plain text of an answer.
const (
	noBody    = 1
	hasDigest = 2 // the digest follows
)

var errVersion = errors.New("it was sealed in a form that this build does not know")

// parseSealed parses sealed bytes.
func parseSealed(b []byte) (id keyID, box []byte, err error) {
	if len(b) == 0 || b[0] != sealedVersion {
		return id, nil, errVersion
	}
	if len(b) < 1+len(id)+boxSize {
		return id, nil, errDamaged
	}
	return keyID(b[1:]), b[1+len(id):], nil
}

func sealBytes(k *dataKey, plain, bound []byte) []byte {
	b := make([]byte, 0, 1+len(k.id)+boxSize+len(plain))
	return sealBox(append(append(b, sealedVersion), k.id[:]...), &k.key, plain, bound)
}

// associatedData returns the associated data of what is sealed: for which key and what, and
// everything about the answer that is not encrypted.
func associatedData(key *storeapi.StoreKey, kind string, a *storeapi.Answer) []byte {
	b := append([]byte("retrysafe sealed 1\n"), kind...)
	b, _ = key.AppendText(append(b, '\n')) // never fails
	b = strconv.AppendBool(append(b, '\n'), a.Kept)
	b = strconv.AppendInt(append(b, ' '), a.Size, 10)
	return append(append(b, '\n'), a.Codec...)
}

// hasNothingToSeal reports whether an answer has nothing to encrypt.
func hasNothingToSeal(a *storeapi.Answer) bool {
	return a.Body == nil && a.Digest == [sha256.Size]byte{}
}

// sealAnswer returns the sealed form of an answer. Codec, Kept and Size stay as they are, since the
// inner store and lists use them.
func sealAnswer(k *dataKey, key *storeapi.StoreKey, kind string, a *storeapi.Answer) storeapi.Answer {
	plain := make([]byte, 1, 1+sha256.Size+len(a.Body))
	if a.Body == nil {
		plain[0] |= noBody
	}
	if a.Digest != [sha256.Size]byte{} {
		plain[0] |= hasDigest
		plain = append(plain, a.Digest[:]...)
	}
	plain = append(plain, a.Body...)
	return storeapi.Answer{
		Codec: storeapi.SealedPrefix + a.Codec, Body: sealBytes(k, plain, associatedData(key, kind, a)), Kept: a.Kept, Size: a.Size,
	}
}

// openAnswer returns the answer of a box. shell has what is not encrypted.
func openAnswer(k *dataKey, key *storeapi.StoreKey, kind string, shell storeapi.Answer, box []byte) (storeapi.Answer, error) {
	plain, err := openBox(box, &k.key, associatedData(key, kind, &shell))
	if err != nil {
		return shell, err
	}
	if len(plain) == 0 || plain[0] > noBody|hasDigest {
		return shell, errVersion
	}
	flags, rest := plain[0], plain[1:]
	if flags&hasDigest != 0 && len(rest) < sha256.Size {
		return shell, errDamaged
	}
	if flags&hasDigest != 0 {
		rest = rest[copy(shell.Digest[:], rest):]
	}
	if flags&noBody == 0 {
		shell.Body = rest
	}
	return shell, nil
}

// The text of an error has this prefix and is base64, since a store may keep it as text.
const sealedText = "sealed:"

// maxText is how much of the text of an error is kept, in bytes. A store keeps 1024, and a sealed
// text is longer.
const maxText = 640

// hiddenText stands for a text that cannot be opened.
const hiddenText = "(sealed)"

func sealText(k *dataKey, key *storeapi.StoreKey, text string) string {
	if len(text) > maxText {
		n := maxText
		for n > maxText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	sealed := sealBytes(k, []byte(text), associatedData(key, forError, &storeapi.Answer{}))
	return sealedText + base64.RawURLEncoding.EncodeToString(sealed)
}

// parseText returns the sealed bytes of the text of an error, or false if it is not sealed.
func parseText(text string) (id keyID, box []byte, ok bool) {
	coded, ok := strings.CutPrefix(text, sealedText)
	if !ok {
		return id, nil, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(coded)
	if err == nil {
		id, box, err = parseSealed(sealed)
	}
	return id, box, err == nil
}

// sameBox reports whether a record has the answer that was just sealed.
func sameBox(rec *storeapi.Record, sealed *storeapi.Answer) bool {
	return rec.Answer.Codec == sealed.Codec && bytes.Equal(rec.Answer.Body, sealed.Body)
}
