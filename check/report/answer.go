package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/check"
)

// answer says in a few words what came back.
func answer(e *check.Exchange) string {
	switch {
	case e.Status == 0 && e.Error == "":
		return "no answer"
	case e.Status == 0:
		return "no answer: " + e.Error
	case e.Error != "":
		return fmt.Sprintf("%d, then %s", e.Status, e.Error)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
}

// maxLines bounds the lines of an answer that are shown, and so the time that it takes to compare
// them: an API can send many thousand fields.
const maxLines = 200

// shown returns the lines of an answer, at most maxLines.
func shown(e *check.Exchange, indent bool) []string {
	all := lines(e, indent)
	if len(all) <= maxLines {
		return all
	}
	return append(all[:maxLines:maxLines], fmt.Sprintf("… %d more lines", len(all)-maxLines))
}

// lines returns an answer as a person reads it: the status, the fields by name, and the body, which
// is indented if indent is set.
func lines(e *check.Exchange, indent bool) []string {
	out := []string{answer(e)}
	names := make([]string, 0, len(e.Header))
	for name := range e.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range e.Header[name] {
			out = append(out, name+": "+value)
		}
	}
	if e.Body == "" {
		return out
	}
	body := e.Body
	if indent {
		body = indented(body)
	}
	return append(append(out, ""), strings.Split(body, "\n")...)
}

// indented returns JSON with a line for each member, and other text as it is, both without a line
// feed at the end.
func indented(body string) string {
	var b bytes.Buffer
	if strings.Contains(strings.TrimSpace(body), "\n") || json.Indent(&b, []byte(body), "", "  ") != nil {
		return strings.TrimRight(body, "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// row is a line of an answer.
type row struct {
	Text string
	// Differs is set for a line that the answer that it is compared with does not have.
	Differs bool
}

// compared returns the answers as lines, in which those are marked that differ from the first
// answer. Of two answers the lines of the first are marked too. The field Date is never marked: it
// differs with the time alone.
func compared(exchanges []check.Exchange) [][]row {
	indent := true
	for i := range exchanges {
		if a, b := exchanges[0].Body, exchanges[i].Body; a != b && indented(a) == indented(b) {
			indent = false // what differs is the white space
		}
	}
	out := make([][]row, len(exchanges))
	for i := range exchanges {
		for _, text := range shown(&exchanges[i], indent) {
			out[i] = append(out[i], row{Text: text})
		}
	}
	for _, other := range out[min(1, len(out)):] {
		here, there := common(out[0], other)
		mark(other, there)
		if len(out) == 2 {
			mark(out[0], here)
		}
	}
	for _, rows := range out {
		for i := range rows {
			rows[i].Text = plain(rows[i].Text)
		}
	}
	return out
}

func mark(rows []row, same []bool) {
	for i := range rows {
		rows[i].Differs = !same[i] && !strings.HasPrefix(rows[i].Text, "Date: ")
	}
}

// common marks the lines of a longest common subsequence of a and b.
func common(a, b []row) (inA, inB []bool) {
	inA, inB = make([]bool, len(a)), make([]bool, len(b))
	length := make([][]uint16, len(a)+1) // of the rest from i and j on
	for i := range length {
		length[i] = make([]uint16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i].Text == b[j].Text {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].Text == b[j].Text:
			inA[i], inB[j] = true, true
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return inA, inB
}
