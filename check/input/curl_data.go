package input

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func canonicalName(name string) string { return http.CanonicalHeaderKey(name) }

// readFile returns the file of an option.
func (c *curlCommand) readFile(name string) ([]byte, error) {
	if c.shell.ReadFile == nil {
		return nil, fmt.Errorf("the file %q cannot be read here; put its content into the command", name)
	}
	data, err := c.shell.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(data) > maxText {
		return nil, fmt.Errorf("the file %q has more than %d MiB", name, maxText>>20)
	}
	return data, nil
}

// addData adds a piece to the body as curl does: after an & unless it is JSON.
func (c *curlCommand) addData(piece []byte) {
	if c.hasData && len(c.data) > 0 && !c.json {
		c.data = append(c.data, '&')
	}
	c.hasData = true
	c.data = append(c.data, piece...)
}

// addFile adds text, or the file that it names after @. Of a file of text, line ends are left out.
func (c *curlCommand) addFile(text string, isText bool) error {
	name, named := strings.CutPrefix(text, "@")
	if !named {
		c.addData([]byte(text))
		return nil
	}
	data, err := c.readFile(name)
	if err != nil {
		return err
	}
	if isText {
		data = slices.DeleteFunc(bytes.Clone(data), func(b byte) bool { return b == '\n' || b == '\r' || b == 0 })
	}
	c.addData(data)
	return nil
}

// addEncoded takes the value of --data-urlencode.
func (c *curlCommand) addEncoded(text string) error {
	piece, err := c.encodeValue(text)
	if err == nil {
		c.addData([]byte(piece))
	}
	return err
}

// addQuery takes the value of --url-query.
func (c *curlCommand) addQuery(text string) error {
	piece, plain := strings.CutPrefix(text, "+")
	var err error
	if !plain {
		piece, err = c.encodeValue(text)
	}
	c.query = append(c.query, piece)
	return err
}

// encodeValue returns one of content, =content, name=content, @file and name@file, with its content
// encoded for a form. An = counts before an @.
func (c *curlCommand) encodeValue(text string) (string, error) {
	name, content, equals := strings.Cut(text, "=")
	if !equals {
		var file string
		var at bool
		if name, file, at = strings.Cut(text, "@"); at {
			data, err := c.readFile(file)
			if err != nil {
				return "", err
			}
			content = string(data)
		} else {
			name, content = "", text
		}
	}
	content = url.QueryEscape(content)
	if name == "" {
		return content, nil
	}
	return name + "=" + content, nil
}

// addUpload takes the value of -T.
func (c *curlCommand) addUpload(name string) error {
	if name == "" || name == "-" || name == "." {
		return errors.New("it needs the name of a file")
	}
	data, err := c.readFile(name)
	if err != nil {
		return err
	}
	c.upload = &upload{name, data}
	return nil
}
