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

// answerText says in a few words what came back.
func answerText(e *check.Exchange) string {
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

// shownLines returns the lines of an answer, at most maxLines.
func shownLines(e *check.Exchange, indent bool) []string {
	all := answerLines(e, indent)
	if len(all) <= maxLines {
		return all
	}
	return append(all[:maxLines:maxLines], fmt.Sprintf("… %d more lines", len(all)-maxLines))
}

// answerLines returns an answer as a person reads it: the status, the fields by name, and the body,
// which is indented if indent is set.
func answerLines(e *check.Exchange, indent bool) []string {
	out := []string{answerText(e)}
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
		body = indentJSON(body)
	}
	return append(append(out, ""), strings.Split(body, "\n")...)
}

// indentJSON returns JSON with a line for each member, and other text as it is, both without a line
// feed at the end.
func indentJSON(body string) string {
	var b bytes.Buffer
	if strings.Contains(strings.TrimSpace(body), "\n") || json.Indent(&b, []byte(body), "", "  ") != nil {
		return strings.TrimRight(body, "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// answerLine is a line of an answer.
type answerLine struct {
	Text string
	// Differs is set for a line that the answer that it is compared with does not have.
	Differs bool
}

// compareAnswers returns the answers as lines, in which those are marked that differ from the first
// answer. Of two answers the lines of the first are marked too. The field Date is never marked: it
// differs with the time alone.
func compareAnswers(exchanges []check.Exchange) [][]answerLine {
	indent := true
	for i := range exchanges {
		if a, b := exchanges[0].Body, exchanges[i].Body; a != b && indentJSON(a) == indentJSON(b) {
			indent = false // what differs is the white space
		}
	}
	out := make([][]answerLine, len(exchanges))
	for i := range exchanges {
		for _, text := range shownLines(&exchanges[i], indent) {
			out[i] = append(out[i], answerLine{Text: text})
		}
	}
	for _, other := range out[min(1, len(out)):] {
		here, there := commonLines(out[0], other)
		markDifferences(other, there)
		if len(out) == 2 {
			markDifferences(out[0], here)
		}
	}
	for _, rows := range out {
		for i := range rows {
			rows[i].Text = plainText(rows[i].Text)
		}
	}
	return out
}

func markDifferences(rows []answerLine, same []bool) {
	for i := range rows {
		rows[i].Differs = !same[i] && !strings.HasPrefix(rows[i].Text, "Date: ")
	}
}

// commonLines marks the lines of a longest common subsequence of a and b.
func commonLines(a, b []answerLine) (inA, inB []bool) {
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
