package httpidem

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// IsToken reports whether s is a token of RFC 9110, section 5.6.2, as the names of fields, cookies
// and methods are.
func IsToken(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenByte = func() (ok [256]bool) {
	for c := range ok {
		b := byte(c)
		ok[c] = isAlpha(b) || isDigit(b) || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
	}
	return ok
}()

// RetryAfter parses the field Retry-After of an answer (RFC 9110, section 10.2.3): seconds, or a
// date. It compares a date with the server's own Date if there is one, and else with now. It
// returns false if there is no such field, or if its value is neither.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.Trim(h.Get("Retry-After"), " \t")
	if v == "" {
		return 0, false
	}
	if strings.Trim(v, "0123456789") == "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n > int64(math.MaxInt64/time.Second) {
			return math.MaxInt64, true
		}
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true
}
