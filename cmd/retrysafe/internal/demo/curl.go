package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// curlCommand returns a request as a shell command; fields are pairs of a field's name and value.
// The body is byte for byte what the page sends; otherwise the gateway would call it another
// request.
func curlCommand(base, key string, req request, fields []string) string {
	body, err := json.Marshal(req)
	if err != nil {
		return ""
	}
	more := ""
	for i := 0; i+1 < len(fields); i += 2 {
		more += fmt.Sprintf(" -H '%s: %s'", fields[i], fields[i+1])
	}
	return fmt.Sprintf("curl -i %s/payments -u %s:demo -H 'Idempotency-Key: %s' -H 'Content-Type: application/json'%s -d %s",
		base, shopper, key, more, quoteWord(string(body)))
}

// quoteWord quotes a word for a shell if necessary.
func quoteWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// selfCommand returns how a shell calls this program: by its name if the shell finds it, or else by
// its path.
func selfCommand() string {
	path, err := os.Executable()
	if err != nil {
		return "retrysafe"
	}
	if found, err := exec.LookPath("retrysafe"); err == nil && found == path {
		return "retrysafe"
	}
	return quoteWord(path)
}
