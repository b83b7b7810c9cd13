package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// explainError adds to err the places in the file that it is about, and replaces Go names with the
// names of the file. from is the line of the route that err is about; zero: of no route.
func (c *Config) explainError(err error, from int) error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range many.Unwrap() {
			if err := c.explainError(one, from); err != nil {
				all = append(all, err)
			}
		}
		return joinInOrder(removeDuplicates(all))
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var all []error
	lines := strings.Split(translateNames(err.Error()), "\n")
	of := ofRoute.FindString(lines[0])
	for i, line := range lines { // a route may have several errors, one per line
		if line = strings.TrimSpace(line); i > 0 {
			line = of + line
		}
		e := &Error{File: c.name, Message: line, cause: err}
		e.Line, e.Column = c.findOption(ofRoute.ReplaceAllString(line, ""), from)
		all = append(all, e)
	}
	return joinInOrder(all)
}

// At returns err as an [*Error] at the place of an option that the file has outside of its routes,
// or of the file as a whole if it does not have it. It is for what only the program can check, such
// as the store.
func (c *Config) At(option string, err error) error {
	e := &Error{File: c.name, Message: err.Error(), cause: err}
	e.Line, e.Column = c.findOption(option, 0)
	return e
}

// removeDuplicates removes duplicates: a policy is validated alone and with its guard, and a route
// inherits the errors of the defaults.
func removeDuplicates(all []error) (left []error) {
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
		ofDefaults[messageWithoutPlace(one)] = true
	}
	said := map[string]bool{}
	for _, one := range flat {
		text := messageWithoutPlace(one)
		if bare := ofRoute.ReplaceAllString(text, ""); said[text] || bare != text && ofDefaults[bare] {
			continue
		}
		said[text] = true
		left = append(left, one)
	}
	return left
}

// messageWithoutPlace returns the message of an error without its place.
func messageWithoutPlace(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// ofRoute matches the start of a message about a route.
var ofRoute = regexp.MustCompile(`^route "(?:[^"\\]|\\.)*": `)

// findOption returns the place of the first option that a message names, in the route that begins
// at line from, or outside of all routes.
func (c *Config) findOption(message string, from int) (line, column int) {
	lines := strings.Split(string(c.source), "\n")
	first, end := 0, len(lines)
	if from > end { // the YAML parser counts lines differently
		from = 0
	}
	if from > 0 {
		first = from - 1
		line, column = from, 1+len(lines[first])-len(strings.TrimLeft(lines[first], " \t"))
	}
	for _, r := range c.file.Routes {
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
		for i := first; i < len(lines) && (i < end || from == 0); i++ {
			m := key.FindStringSubmatchIndex(lines[i])
			if m == nil || strings.HasPrefix(strings.TrimSpace(lines[i]), "#") {
				continue
			}
			if i < end || m[2] == 0 { // below the routes only what is certainly not of a route
				return i + 1, m[2] + 1
			}
		}
	}
	return line, column
}
