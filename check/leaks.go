package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// minLeak is the length from which a text of an answer is taken for its own.
const minLeak = 6

// findLeaks returns what of the stored answer stands in refusal, in words for a report. What the
// request said itself, or a refusal of another key says too, is no leak.
func findLeaks(stored, refusal, control *reply, op operation) []string {
	var found []string
	for _, name := range []string{"Location", "Set-Cookie", "Etag"} {
		for _, value := range stored.header[name] {
			if slices.Contains(refusal.header[name], value) && !slices.Contains(control.header[name], value) {
				found = append(found, "the field "+name)
			}
		}
	}
	body := bytes.TrimSpace(stored.body)
	if len(body) >= minLeak && bytes.Contains(refusal.body, body) && !bytes.Contains(control.body, body) {
		return append(found, "the whole body")
	}
	value, err := decodeJSON(stored.body)
	if err != nil {
		return found
	}
	known := slices.Concat(op.request.Body, []byte(op.request.URL), control.body, []byte(strings.Join(op.keys, " ")))
	for name, text := range jsonTexts("$", value) {
		if len(text) >= minLeak && !isTime(text, time.Now()) && bytes.Contains(refusal.body, []byte(text)) && !bytes.Contains(known, []byte(text)) {
			found = append(found, name)
		}
	}
	return found
}

// timeForms are the forms of a time in an answer.
var timeForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", time.DateTime, "2006-01-02 15:04:05.999999999Z07:00", time.DateOnly,
	http.TimeFormat, time.RFC1123Z, time.RFC822, time.RFC822Z, time.RFC850, time.ANSIC, time.UnixDate,
}

// isTime reports whether text is a time: a date, or a number of seconds, or of parts of a second,
// since 1970 that is within two days of now. Two answers of one moment have the same time by
// chance.
func isTime(text string, now time.Time) bool {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		const near = 2 * 24 * 60 * 60
		for unit := 1.0; unit <= 1e9; unit *= 1000 {
			if math.Abs(n/unit-float64(now.Unix())) < near {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(timeForms, func(form string) bool { _, err := time.Parse(form, text); return err == nil })
}

// jsonTexts yields the strings and numbers of a JSON value with their paths, members in no order.
func jsonTexts(path string, value any) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) { walkJSON(path, value, yield) }
}

func walkJSON(path string, value any, yield func(string, string) bool) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if !walkJSON(path+"."+name, member, yield) {
				return false
			}
		}
	case []any:
		for i, element := range v {
			if !walkJSON(fmt.Sprintf("%s[%d]", path, i), element, yield) {
				return false
			}
		}
	case string:
		return yield(path, v)
	case json.Number:
		return yield(path, v.String())
	}
	return true
}
