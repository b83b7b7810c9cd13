package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/internal/sendable"
)

// kinds of bodies, the ones that are tried first in front.
const (
	kindJSON = iota
	kindForm
	kindText
	kindUnknown
)

// kindOf says how a body of a media type is written, and as which type it is sent.
func kindOf(media string) (kind int, sent string) {
	base, _, _ := strings.Cut(strings.ToLower(media), ";")
	switch base = strings.TrimSpace(base); {
	case base == "application/json" || strings.HasSuffix(base, "+json"):
		return kindJSON, media
	case base == "*/*" || base == "application/*":
		return kindJSON, "application/json"
	case base == "application/x-www-form-urlencoded":
		return kindForm, media
	case strings.HasPrefix(base, "multipart/") || strings.Contains(base, "*"):
		return kindUnknown, media
	default:
		return kindText, media
	}
}

// fillBody sets the body of r and its type. Its error begins with the rest of a JSON pointer.
func (o *operation) fillBody(r *check.Request) error {
	if o.op.RequestBody == nil || o.op.RequestBody.Value == nil {
		return nil
	}
	body := o.op.RequestBody.Value
	types := slices.SortedFunc(maps.Keys(body.Content), func(a, b string) int {
		ka, _ := kindOf(a)
		kb, _ := kindOf(b)
		if ka != kb {
			return ka - kb
		}
		return strings.Compare(a, b)
	})
	var first error
	for _, media := range types {
		content, sent, err := bodyOf(media, body.Content[media])
		if err == nil {
			r.Body = content
			return sendable.AddField(r.Header, "Content-Type", sent)
		}
		if first == nil {
			first = fmt.Errorf("/content/%s%w", escapePointer(media), err)
		}
	}
	if first == nil && body.Required {
		first = errors.New("/content is empty")
	}
	if body.Required {
		return first
	}
	return nil
}

func bodyOf(media string, content *openapi3.MediaType) (body []byte, sent string, err error) {
	kind, sent := kindOf(media)
	if content == nil || kind == kindUnknown {
		return nil, "", errors.New(": bodies of this type are not known")
	}
	value, found := exampleOf(content.Example, content.Examples, content.Schema)
	if !found && kind == kindText {
		return nil, "", errors.New(": a body of this type needs an example")
	}
	if !found {
		if value, err = newValueMaker().makeValue(content.Schema, "/schema"); err != nil {
			return nil, "", err
		}
	}
	switch text, isText := value.(string); {
	case kind == kindText && isText:
		return []byte(text), sent, nil
	case kind == kindText:
		return nil, "", errors.New(": the example of a body of this type has to be a text")
	case kind == kindForm:
		body, err = formOf(value)
	default:
		body, err = jsonOf(value)
	}
	if err != nil {
		err = fmt.Errorf(": %w", err)
	}
	return body, sent, err
}

func jsonOf(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func formOf(value any) ([]byte, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("a form has to be an object")
	}
	form := make(url.Values)
	for name, member := range object {
		list, err := valueTexts(member)
		if err != nil {
			return nil, fmt.Errorf("the member %s: %w", name, err)
		}
		form[name] = list
	}
	return []byte(form.Encode()), nil
}

// valueTexts returns a value, or each of a list, as it stands in a URL.
func valueTexts(value any) ([]string, error) {
	switch v := value.(type) {
	case nil:
		return []string{""}, nil
	case string:
		return []string{v}, nil
	case bool:
		return []string{strconv.FormatBool(v)}, nil
	case []any:
		var list []string
		for _, each := range v {
			if _, nested := each.([]any); nested {
				return nil, errors.New("a list of lists cannot be written here")
			}
			one, err := valueTexts(each)
			if err != nil {
				return nil, err
			}
			list = append(list, one...)
		}
		return list, nil
	case map[string]any:
		return nil, errors.New("an object cannot be written here")
	default: // a number
		text, err := jsonOf(v)
		return []string{string(text)}, err
	}
}
