// Package etag sends the version of a row to a client and reads it back, as an entity-tag (RFC
// 9110, section 8.8.3), for guard.Version:
//
//	w.Header().Set("ETag", etag.Format(row.Version))      // with the answer to GET
//
//	version, err := etag.IfMatch(r)                        // of the PUT or POST
//	if err == nil {
//		_, err = account.Update(r.Context(), tx, id, version, key, set)
//	}
//	if etag.Refuse(w, err) { return }                      // 412, 428, 404, 400
//
// For a version that is a time, use Format(t.UnixMicro()) and time.UnixMicro(version).
package etag

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/guard"
)

var (
	// ErrRequired means that the request names no version; status 428 (RFC 6585, section 3).
	ErrRequired = errors.New("etag: the request has to say in If-Match which version it changes; read the resource, and send the ETag of that answer")
	// ErrMalformed means that If-Match is not a list of entity-tags; status 400.
	ErrMalformed = errors.New(`etag: If-Match is not an entity-tag such as "17"; send the ETag as it came, with its quotes`)
	// ErrNoMatch means that this resource never had the entity-tag; status 412 (RFC 9110, section
	// 15.5.13).
	ErrNoMatch = errors.New("etag: If-Match names no version of this resource; read it again, and send the ETag of that answer")
)

// Format returns the strong entity-tag of a version: the number in quotes.
func Format(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// IfMatch returns the version that a request names in If-Match.
//
// Errors: [ErrRequired] if there is no entity-tag, or "*" or several, which do not say what the
// client has seen; [ErrMalformed]; [ErrNoMatch] for a weak one, which If-Match never matches (RFC
// 9110, section 13.1.1), and for one that Format did not make.
func IfMatch(r *http.Request) (version int64, err error) {
	field := strings.Join(r.Header.Values("If-Match"), ",")
	tag, rest, err := nextTag(field)
	switch {
	case strings.Trim(field, " \t,") == "", strings.Trim(field, " \t") == "*":
		return 0, ErrRequired
	case err != nil:
		return 0, err
	}
	weak, first := strings.HasPrefix(tag, "W/"), tag
	for rest != "" {
		var other string
		if other, rest, err = nextTag(rest); err != nil {
			return 0, err
		}
		if other != "" && other != first {
			return 0, ErrRequired
		}
	}
	version, err = strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
	if weak || err != nil || Format(version) != tag {
		return 0, ErrNoMatch
	}
	return version, nil
}

// nextTag returns the first entity-tag of a list, and the rest. Empty members are allowed (RFC
// 9110, section 5.6.1).
func nextTag(list string) (tag, rest string, err error) {
	list = strings.TrimLeft(list, " \t,")
	if list == "" {
		return "", "", nil
	}
	from := 0
	if strings.HasPrefix(list, "W/") {
		from = 2
	}
	if len(list) <= from || list[from] != '"' {
		return "", "", ErrMalformed
	}
	end := strings.IndexByte(list[from+1:], '"')
	if end < 0 {
		return "", "", ErrMalformed
	}
	end += from + 2
	for _, c := range []byte(list[from+1 : end-1]) {
		if c < 0x21 || c == 0x7f {
			return "", "", ErrMalformed
		}
	}
	tag, rest = list[:end], strings.TrimLeft(list[end:], " \t")
	if rest != "" && rest[0] != ',' {
		return "", "", ErrMalformed
	}
	return tag, rest, nil
}

// Status returns the HTTP status for an error of IfMatch or of a guard. It returns zero for other
// errors, which are internal to the server.
func Status(err error) int {
	for _, known := range []struct {
		err    error
		status int
	}{
		{ErrRequired, http.StatusPreconditionRequired},
		{ErrMalformed, http.StatusBadRequest},
		{ErrNoMatch, http.StatusPreconditionFailed},
		{guard.ErrStale, http.StatusPreconditionFailed},
		{guard.ErrMissing, http.StatusNotFound},
	} {
		if errors.Is(err, known.err) {
			return known.status
		}
	}
	return 0
}

var advice = map[int]string{
	http.StatusPreconditionRequired: "Read the resource, and send the ETag of that answer in If-Match: one, with its quotes.",
	http.StatusBadRequest:           "If-Match is not an entity-tag. Send the ETag of the last answer as it came, with its quotes.",
	http.StatusPreconditionFailed:   "The resource has changed since it was read. Read it again, and decide on what is there now.",
	http.StatusNotFound:             "There is no such resource.",
}

// Refuse answers a request with the [Status] of err, as a problem document (RFC 9457), and reports
// whether it did. It returns false if err is nil or an error without a status. The answer does not
// contain the text of err.
func Refuse(w http.ResponseWriter, err error) bool {
	status := Status(err)
	if status == 0 {
		return false
	}
	// marshaling a map of strings never fails
	body, _ := json.Marshal(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": advice[status]})
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store") // 428: RFC 6585, section 3
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s\n", body)
	return true
}
