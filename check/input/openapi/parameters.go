package openapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/retrysafe/retrysafe/check/internal/sendable"
)

// requestTarget is what parameters make of a request.
type requestTarget struct {
	path, query string
	header      http.Header
}

// ignoredFields are the fields that OpenAPI gives another place, and the key.
var ignoredFields = strings.Fields("accept content-type authorization idempotency-key x-idempotency-key")

// addParameter adds one parameter. One that is optional is sent if it has an example.
func (t *requestTarget) addParameter(p *openapi3.Parameter) error {
	if p.In == openapi3.ParameterInHeader && slices.Contains(ignoredFields, strings.ToLower(p.Name)) {
		return nil
	}
	required := p.Required || p.In == openapi3.ParameterInPath
	value, found := exampleOf(p.Example, p.Examples, p.Schema)
	if !required && !found {
		return nil
	}
	content := firstContent(p.Content)
	if !found && content != nil {
		value, found = exampleOf(content.Example, content.Examples, content.Schema)
	}
	if !found {
		schema := p.Schema
		if content != nil {
			schema = content.Schema
		}
		var err error
		if value, err = newValueMaker().makeValue(schema, ""); err != nil {
			return err
		}
	}
	if content != nil {
		text, err := jsonOf(value)
		if err != nil {
			return err
		}
		value = string(text)
	}
	values, err := valueTexts(value)
	if err != nil {
		return err
	}
	return t.putValues(p, values)
}

func firstContent(all openapi3.Content) *openapi3.MediaType {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != nil {
			return all[name]
		}
	}
	return nil
}

// putValues writes the values of a parameter where it belongs.
func (t *requestTarget) putValues(p *openapi3.Parameter, values []string) error {
	switch p.In {
	case openapi3.ParameterInPath:
		if p.Style != "" && p.Style != openapi3.SerializationSimple {
			return fmt.Errorf("the style %s is not known", p.Style)
		}
		for i := range values {
			values[i] = url.PathEscape(values[i])
		}
		text := strings.Join(values, ",")
		if text == "" || text == "." || text == ".." {
			return errors.New("a part of a path cannot be empty or dots; give an example")
		}
		t.path = strings.ReplaceAll(t.path, "{"+p.Name+"}", text)
	case openapi3.ParameterInQuery:
		return t.putQuery(p, values)
	case openapi3.ParameterInHeader:
		return sendable.AddField(t.header, p.Name, strings.Join(values, ","))
	case openapi3.ParameterInCookie:
		cookies := t.header.Get("Cookie")
		if cookies != "" {
			cookies += "; "
		}
		t.header.Del("Cookie")
		return sendable.AddField(t.header, "Cookie", cookies+p.Name+"="+strings.Join(values, ","))
	default:
		return fmt.Errorf("%q is no place for a parameter", p.In)
	}
	return nil
}

// separators of lists in a query that are not repeated.
var listSeparators = map[string]string{
	"": ",", openapi3.SerializationForm: ",",
	openapi3.SerializationSpaceDelimited: "%20", openapi3.SerializationPipeDelimited: "%7C",
}

func (t *requestTarget) putQuery(p *openapi3.Parameter, values []string) error {
	separator, known := listSeparators[p.Style]
	if !known {
		return fmt.Errorf("the style %s is not known", p.Style)
	}
	for i := range values {
		values[i] = url.QueryEscape(values[i])
	}
	explode := separator == ","
	if p.Explode != nil {
		explode = *p.Explode
	}
	if !explode {
		values = []string{strings.Join(values, separator)}
	}
	for _, value := range values {
		if t.query != "" {
			t.query += "&"
		}
		t.query += url.QueryEscape(p.Name) + "=" + value
	}
	return nil
}

// exampleOf returns the example that a document gives, if any.
func exampleOf(example any, examples openapi3.Examples, schema *openapi3.SchemaRef) (any, bool) {
	if example != nil {
		return example, true
	}
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		if e := examples[name]; e != nil && e.Value != nil && e.Value.Value != nil {
			return e.Value.Value, true
		}
	}
	if schema != nil && schema.Value != nil {
		return schemaExample(schema.Value)
	}
	return nil, false
}

func schemaExample(s *openapi3.Schema) (any, bool) {
	if s.Example != nil {
		return s.Example, true
	}
	if len(s.Examples) > 0 {
		return s.Examples[0], true
	}
	return nil, false
}
