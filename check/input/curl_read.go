package input

import (
	"errors"
	"strings"

	"github.com/retrysafe/retrysafe/check/internal/place"
)

// readWords reads the words after curl.
func (c *curlCommand) readWords(all []word) error {
	options := true
	for len(all) > 0 {
		w := all[0]
		all = all[1:]
		switch {
		case options && w.text == "--":
			options = false
			continue
		case !options || w.text == "-" || !strings.HasPrefix(w.text, "-"):
			if err := c.setURL(w, w.text); err != nil {
				return err
			}
			continue
		}
		used, err := c.readOptions(w, all)
		if err != nil {
			return err
		}
		all = all[used:]
	}
	return nil
}

// readOptions reads the options of one word, and returns how many of the next words are their
// values.
func (c *curlCommand) readOptions(w word, next []word) (used int, err error) {
	if name, long := strings.CutPrefix(w.text, "--"); long {
		if bare, no := strings.CutPrefix(name, "no-"); no && flagOptions[bare] && requestFlags[bare] == nil {
			return 0, nil
		}
		return c.takeOption(w, name, "--"+name, "", next)
	}
	for i := 1; i < len(w.text); i++ {
		name := shortOptions[w.text[i]]
		shown := "-" + w.text[i:i+1]
		if name == "" {
			return 0, unknownOption(w, shown)
		}
		if takesValue(name) {
			return c.takeOption(w, name, shown, w.text[i+1:], next)
		}
		if _, err := c.takeOption(w, name, shown, "", nil); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// takeOption takes one option. attached is a value in the same word.
func (c *curlCommand) takeOption(w word, name, shown, attached string, next []word) (used int, err error) {
	if why := refusedOptions[name]; why != "" {
		return 0, place.Fault(w.at, "the option %s: %s", shown, why)
	}
	if flagOptions[name] {
		if do := requestFlags[name]; do != nil {
			do(c)
		}
		return 0, nil
	}
	do, known := valueOptions[name]
	if !known && !ignoredOptions[name] {
		return 0, unknownOption(w, shown)
	}
	value := word{attached, w.at}
	if attached == "" {
		if len(next) == 0 {
			return 0, place.Fault(w.at, "the option %s needs a value", shown)
		}
		value, used = next[0], 1
	}
	if known {
		if err := do(c, value); err != nil {
			return 0, placeError(value, shown, err)
		}
	}
	return used, nil
}

func unknownOption(w word, shown string) error {
	return place.Fault(w.at, "the option %s of curl is not known here; leave it out if the request is the same without", shown)
}

// placeError gives an error of an option its place.
func placeError(value word, shown string, err error) error {
	var p *place.Error
	if errors.As(err, &p) {
		return err
	}
	return place.Fault(value.at, "the option %s: %w", shown, err)
}

func (c *curlCommand) setURL(w word, text string) error {
	if c.url != "" {
		return place.Fault(w.at, "a second URL; one request has one, and other words belong in quotes")
	}
	if text == "" {
		return place.Fault(w.at, "the URL is empty")
	}
	c.url, c.urlAt = text, w.at
	return nil
}
