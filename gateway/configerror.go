package gateway

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ConfigError is an error at one place of a configuration file.
type ConfigError struct {
	// File is the path given to [LoadConfig]; ParseConfig sets "configuration".
	File string
	// Line and Column begin at 1. Zero: the error is about the file as a whole.
	Line, Column int
	Message      string
	cause        error
}

// Error returns file:line:column: message, as compilers do.
func (e *ConfigError) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
	}
	return at + ": " + e.Message
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.cause }

// at matches the place at the start of a message of the YAML parser, or of wrong.
var at = regexp.MustCompile(`^\[(\d+):(\d+)\] `)

// placed returns the error for a message that starts with its place.
func placed(file, message string, cause error) *ConfigError {
	e := &ConfigError{File: file, Message: strings.TrimSpace(message), cause: cause}
	if m := at.FindStringSubmatch(message); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Column, _ = strconv.Atoi(m[2])
		e.Message = strings.TrimSpace(message[len(m[0]):])
	}
	switch m := unknownField.FindStringSubmatch(e.Message); {
	case m != nil:
		e.Message += nearest(m[1], optionNames)
	case wrongType.MatchString(e.Message):
		e.Message = wrongType.ReplaceAllStringFunc(e.Message, func(text string) string {
			m := wrongType.FindStringSubmatch(text)
			return fmt.Sprintf("%s stands where %s belongs", kindOf(m[1]), kindOf(m[2]))
		})
	default:
		e.Message = inWords(e.Message)
	}
	return e
}

// wrongType matches the YAML parser's message for a value of the wrong type, which has Go names.
var wrongType = regexp.MustCompile(`cannot unmarshal (\S+) into Go (?:struct field \S+|value) of type (\S+)`)

// kindOf returns the words for a Go type.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "bool"):
		return "true or false"
	case strings.HasPrefix(name, "[]"), name == "sequence":
		return "a list"
	case strings.Contains(name, "int"), strings.Contains(name, "float"):
		return "a number"
	case strings.HasSuffix(name, "string"):
		return "a text"
	}
	return "a value of another kind"
}

var unknownField = regexp.MustCompile(`^unknown field "([^"]*)"`)

// optionNames has all options of the file.
var optionNames = func() (names []string) {
	for _, s := range sections {
		for i := range s.of.NumField() {
			if name := s.of.Field(i).Tag.Get("yaml"); name != "" && !strings.HasPrefix(name, ",") {
				names = append(names, name)
			}
		}
	}
	return names
}()

// nearest returns a suggestion to append to a message about an unknown name, or nothing if no name
// is close.
func nearest(text string, names []string) string {
	if slices.Contains(names, text) {
		return "; it belongs into another part of the file"
	}
	best, far := "", 1+max(1, len(text)/3)
	for _, name := range names {
		if d := distance(text, name); d < far {
			best, far = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance counts the bytes to add, drop, change or swap with the next one.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			cost := 1
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// words maps Go names to the options of the file.
var words = map[string]string{
	"TimeoutAnswer": "timeout_answer", "ClientTime": "client_time", "QuietTime": "quiet_time", "BodyTime": "body_time", "MaxRun": "max_run",
	"MaxBody": "max_body", "MaxAnswer": "max_answer", "MinKey": "min_key", "KeyHeader": "key_header", "OnDoubt": "on_doubt",
	"After5xx": "after_5xx", "FormKey": "form_key", "Lease": "lease", "Retention": "retention", "Wait": "in_progress", "Duplicate": "on_duplicate",
	"Reexecute": "reexecute", "Refuse": "refuse", "Trusted": "trusted", "Methods": "match", "Tenant": "tenant", "Operation": "operation", "Fields": "fields",
	"Params": "params", "Key": "key", "AnyPayload": "any_payload", "Rate": "rate", "Limits": "limits", "Live": "live", "PerSecond": "new_per_s",
	"Burst": "burst", "Bytes": "bytes", "Upgrades": "upgrades", "ReleaseIt": "release", "Auto": "auto", "Off": "off", "MaxAge": "max_age", "Bodies": "bodies", "Conns": "connections", "Life": "life",
	"Health": "health", "Outstanding": "outstanding", "Rate.PerSecond": "per_s", "Age": "max_age", "FromFronts": "header:NAME",
}

var (
	// goName matches a Go name, with the struct that has it in front. Text that is quoted, or that
	// has a hyphen or a slash, is the user's.
	goName   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[\w/-]*[/-]\w*|\b(?:([A-Z][a-z]+)\.)?([A-Z][A-Za-z0-9]+)\b`)
	ofModule = regexp.MustCompile(`\b(?:gateway|httpidem|retrysafe|httpsig|configuration|policy|options|token): `)
)

// inWords replaces the Go names of a message with the names of the file.
func inWords(text string) string {
	text = ofModule.ReplaceAllString(text, "")
	return goName.ReplaceAllStringFunc(text, func(name string) string {
		m := goName.FindStringSubmatch(name)
		for _, known := range []string{m[1] + "." + m[2], m[2]} {
			if word := words[known]; word != "" {
				return word
			}
		}
		return name
	})
}

// explain adds to err the places in the file that it is about, and replaces Go names with the names
// of the file. from is the line of the route that err is about; zero: of no route.
func (c *Config) explain(err error, from int) error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range many.Unwrap() {
			if err := c.explain(one, from); err != nil {
				all = append(all, err)
			}
		}
		return errors.Join(once(all)...)
	}
	var known *ConfigError
	if errors.As(err, &known) {
		return known
	}
	var all []error
	lines := strings.Split(inWords(err.Error()), "\n")
	of := ofRoute.FindString(lines[0])
	for i, line := range lines { // a route may have several errors, one per line
		if line = strings.TrimSpace(line); i > 0 {
			line = of + line
		}
		e := &ConfigError{File: c.name, Message: line, cause: err}
		e.Line, e.Column = c.find(ofRoute.ReplaceAllString(line, ""), from)
		all = append(all, e)
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// once removes duplicates: a policy is validated alone and with its guard, and a route inherits the
// errors of the defaults.
func once(all []error) (left []error) {
	var flat []error
	for _, one := range all {
		if many, ok := one.(interface{ Unwrap() []error }); ok {
			flat = append(flat, many.Unwrap()...)
		} else {
			flat = append(flat, one)
		}
	}
	ofDefaults := map[string]bool{}
	for _, one := range flat {
		ofDefaults[placeless(one)] = true
	}
	said := map[string]bool{}
	for _, one := range flat {
		text := placeless(one)
		if bare := ofRoute.ReplaceAllString(text, ""); said[text] || bare != text && ofDefaults[bare] {
			continue
		}
		said[text] = true
		left = append(left, one)
	}
	return left
}

// placeless returns the message of an error without its place.
func placeless(err error) string {
	if e := (*ConfigError)(nil); errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// ofRoute matches the start of a message about a route.
var ofRoute = regexp.MustCompile(`^route "(?:[^"\\]|\\.)*": `)

// find returns the place of the first option that a message names, in the route that begins at line
// from, or before all routes.
func (c *Config) find(message string, from int) (line, column int) {
	lines := strings.Split(string(c.source), "\n")
	first, end := 0, len(lines)
	if from > end { // the YAML parser counts lines differently
		from = 0
	}
	if from > 0 {
		first = from - 1
		line, column = from, 1+len(lines[first])-len(strings.TrimLeft(lines[first], " \t"))
	}
	for _, r := range c.Routes {
		if r.Match.line > from && r.Match.line-1 < end {
			end = r.Match.line - 1
		}
	}
	var named []string
	for word := range strings.FieldsFuncSeq(message, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		if slices.Contains(optionNames, word) {
			named = append(named, word)
		}
	}
	for _, name := range named {
		key := regexp.MustCompile(`(?:^|[\s{,])(` + name + `)\s*:`)
		for i := first; i < end; i++ {
			if m := key.FindStringSubmatchIndex(lines[i]); m != nil && !strings.HasPrefix(strings.TrimSpace(lines[i]), "#") {
				return i + 1, m[2] + 1
			}
		}
	}
	return line, column
}

// section is a table of options.
type section struct {
	title string
	of    reflect.Type
}
