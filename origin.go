package retrysafe

import "strings"

// MaxOrigin is the longest text that [Trace].Origin may return, in bytes. A traceparent has 55.
const MaxOrigin = 128

// originMark separates the codec of a stored answer from the text of [Trace].Origin.
const originMark = ";span="

// maxTraced is the longest codec with an origin, in bytes. Stores keep 255, and a store that wraps
// another may put a word of its own before it.
const maxTraced = 240

// withOrigin returns the answer with the origin after its codec. An answer that names no codec
// gets none: it says only that the work was done, and stores keep it in fewer bytes.
func withOrigin(a Answer, origin string) Answer {
	if origin == "" || a.Codec == "" || len(a.Codec)+len(originMark)+len(origin) > maxTraced || !traceable(origin) {
		return a
	}
	a.Codec += originMark + origin
	return a
}

// takeOrigin removes the origin from a stored answer, and returns it.
func takeOrigin(a *Answer) (origin string) {
	at := strings.LastIndex(a.Codec, originMark)
	if at < 0 {
		return ""
	}
	a.Codec, origin = a.Codec[:at], a.Codec[at+len(originMark):]
	return origin
}

func traceable(s string) bool {
	if len(s) > MaxOrigin {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ';' {
			return false
		}
	}
	return true
}
