package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// isText reports whether s has at most so many bytes, and only characters that a person sees. A
// character that controls a terminal or changes the direction of a line could make an entry of the
// audit log look like another one. Joiners are a part of words and of pictures.
func isText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != '\u200c' && r != '\u200d' })
}

// isSeen reports whether a person sees r: it is no space, and none of the letters that fill a place
// in Hangul and Braille.
func isSeen(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !strings.ContainsRune("\u115f\u1160\u2800\u3164\uffa0", r)
}

// marshalPrintable returns v as JSON that a terminal shows as it is: characters that control it are
// escaped. A document may have what clients of the service have sent.
func marshalPrintable(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	shown := func(r rune) bool { return r < 0x7f || unicode.IsPrint(r) }
	if bytes.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0 {
		return append(text, '\n'), nil
	}
	var out []byte
	for _, r := range string(text) {
		switch {
		case shown(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return append(out, '\n'), nil
}
