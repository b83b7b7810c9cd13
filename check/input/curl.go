package input

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/internal/place"
)

// Shell is what a curl command may use besides its own text. The zero value gives it nothing.
type Shell struct {
	// ReadFile returns the file of an option such as -d @FILE. Without it such options are refused.
	ReadFile func(name string) ([]byte, error)
	// LookupEnv returns the variables that the command names. Without it they are refused.
	LookupEnv func(name string) (value string, ok bool)
}

// Curl reads a curl command that needs no files and no variables. See [Shell.Curl].
func Curl(line string) (check.Request, error) { return Shell{}.Curl(line) }

// Curl reads a curl command as it is copied from a browser ("Copy as cURL (bash)") or from a page:
// quotes, $'…', several lines that end with \, comments and a pipe after it are understood.
//
// The request is the one that curl would send, with three differences: the default fields of curl
// are missing, a user in the URL becomes the field Authorization, and a fragment is left out.
// Options that say how curl connects, waits and prints are left out. Unknown options, and those of
// which a request has no more than one answer to, are errors with their line and column.
func (s Shell) Curl(line string) (check.Request, error) {
	if len(line) > maxText {
		return check.Request{}, fmt.Errorf("curl command: more than %d MiB", maxText>>20)
	}
	request, err := s.parseCurl(line)
	if err != nil {
		return check.Request{}, fmt.Errorf("curl command: %w", place.Named(line, err))
	}
	return request, nil
}

func (s Shell) parseCurl(line string) (check.Request, error) {
	if at := strings.IndexByte(line, 0); at >= 0 {
		return check.Request{}, place.Fault(at, "a character 0, which no shell reads")
	}
	if at := strings.Index(line, `^"`); at >= 0 && !strings.Contains(line[:at], "'") {
		return check.Request{}, place.Fault(at, `this is the form for cmd.exe; copy as "cURL (bash)" instead`)
	}
	all, err := splitWords(line, s.LookupEnv)
	if err != nil {
		return check.Request{}, err
	}
	all = skipPrefix(all)
	if len(all) == 0 || !isCurl(all[0].text) {
		at := 0
		if len(all) > 0 {
			at = all[0].at
		}
		return check.Request{}, place.Fault(at, "it has to start with curl")
	}
	c := &curlCommand{shell: s, header: make(http.Header), defaults: make(http.Header), removed: make(map[string]bool)}
	if err := c.readWords(all[1:]); err != nil {
		return check.Request{}, err
	}
	return c.toRequest()
}

// skipPrefix leaves out the prompt of a page and variables that are set for the command only.
func skipPrefix(all []word) []word {
	for len(all) > 0 {
		name, _, assigned := strings.Cut(all[0].text, "=")
		prompt := all[0].text == "$" || all[0].text == "%"
		if !prompt && (!assigned || name == "" || nameLength(name) != len(name)) {
			break
		}
		all = all[1:]
	}
	return all
}

func isCurl(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	return name == "curl" || name == "curl.exe"
}

// curlCommand is a command that is read option by option.
type curlCommand struct {
	shell   Shell
	url     string
	urlAt   int
	method  string
	head    bool
	get     bool
	json    bool
	hasData bool
	data    []byte
	query   []string
	cookies []string
	user    *string
	header  http.Header
	// defaults are fields of other options than -H
	defaults http.Header
	removed  map[string]bool
	upload   *upload
}

// upload is the file of -T.
type upload struct {
	name string
	data []byte
}
