package openapi

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Bounds of a value that is made, since schemas may contain themselves.
const (
	maxDepth  = 24
	maxParts  = 5000
	maxLength = 1 << 16
	maxItems  = 100
)

// valueMaker makes one value of a schema.
type valueMaker struct{ depth, parts int }

func newValueMaker() *valueMaker { return new(valueMaker) }

// makeValue returns a value that s allows. at is the JSON pointer of s.
func (m *valueMaker) makeValue(ref *openapi3.SchemaRef, at string) (any, error) {
	if ref == nil || ref.Value == nil {
		return nil, fmt.Errorf("%s: there is no schema and no example", at)
	}
	m.depth++
	m.parts++
	defer func() { m.depth-- }()
	if m.depth > maxDepth || m.parts > maxParts {
		return nil, fmt.Errorf("%s: the schema contains itself, or is too deep; give an example", at)
	}
	s := ref.Value
	if example, ok := schemaExample(s); ok {
		return example, nil
	}
	switch {
	case s.Default != nil:
		return s.Default, nil
	case s.Const != nil:
		return s.Const, nil
	case len(s.Enum) > 0:
		return s.Enum[0], nil
	case len(s.AllOf) > 0:
		return m.makeAllOf(s, at)
	case len(s.OneOf) > 0:
		return m.makeFirstOf(s.OneOf, at+"/oneOf")
	case len(s.AnyOf) > 0:
		return m.makeFirstOf(s.AnyOf, at+"/anyOf")
	}
	value, err := m.makeOfType(s, at)
	if err != nil && !strings.HasPrefix(err.Error(), "/") {
		err = fmt.Errorf("%s: %w", at, err)
	}
	return value, err
}

func (m *valueMaker) makeOfType(s *openapi3.Schema, at string) (any, error) {
	switch {
	case s.Type.Includes("object") || len(s.Properties) > 0:
		return m.makeObject(s, at)
	case s.Type.Includes("array") || s.Items != nil:
		return m.makeArray(s, at)
	case s.Type.Includes("string"):
		return sampleText(s)
	case s.Type.Includes("integer"):
		return sampleNumber(s, 1)
	case s.Type.Includes("number"):
		return sampleNumber(s, 0)
	case s.Type.Includes("boolean"):
		return true, nil
	case s.Type.Includes("null"):
		return nil, nil
	}
	return nil, errors.New("the schema has no type and no example")
}

// makeAllOf returns the object that all parts of an allOf make.
func (m *valueMaker) makeAllOf(s *openapi3.Schema, at string) (any, error) {
	merged := make(map[string]any)
	for i, part := range s.AllOf {
		value, err := m.makeValue(part, fmt.Sprintf("%s/allOf/%d", at, i))
		if err != nil {
			return nil, err
		}
		object, ok := value.(map[string]any)
		switch {
		case ok:
			maps.Copy(merged, object)
		case len(s.AllOf) == 1:
			return value, nil
		default:
			return nil, fmt.Errorf("%s/allOf/%d: only objects can be put together; give an example", at, i)
		}
	}
	own, err := m.makeObject(s, at)
	maps.Copy(merged, own)
	return merged, err
}

// makeFirstOf returns a value of the first schema of which one can be made.
func (m *valueMaker) makeFirstOf(all openapi3.SchemaRefs, at string) (any, error) {
	var first error
	for i, part := range all {
		value, err := m.makeValue(part, fmt.Sprintf("%s/%d", at, i))
		if err == nil {
			return value, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// makeObject has the required members, and those with an example; all of them if none is required.
func (m *valueMaker) makeObject(s *openapi3.Schema, at string) (map[string]any, error) {
	object := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		if property == nil || property.Value == nil || property.Value.ReadOnly {
			continue
		}
		required := slices.Contains(s.Required, name)
		_, has := schemaExample(property.Value)
		if !required && !has && len(s.Required) > 0 {
			continue
		}
		value, err := m.makeValue(property, at+"/properties/"+escapePointer(name))
		switch {
		case err == nil:
			object[name] = value
		case required || m.parts > maxParts:
			return nil, err
		}
	}
	return object, nil
}

func (m *valueMaker) makeArray(s *openapi3.Schema, at string) (any, error) {
	n := max(1, s.MinItems)
	if n > maxItems || n > 1 && s.UniqueItems || s.MaxItems != nil && *s.MaxItems < n {
		return nil, errors.New("such a list needs an example")
	}
	list := make([]any, 0, n)
	for range n {
		value, err := m.makeValue(s.Items, at+"/items")
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// formats are values of the formats of strings.
var formatSamples = map[string]string{
	"date-time": "2030-01-02T03:04:05Z", "date": "2030-01-02", "time": "03:04:05Z", "duration": "P1D",
	"uuid": "6f1c1f0e-1f3b-4c53-9a3e-0d6f0a5b7c21", "email": "someone@example.com",
	"uri": "https://example.com/", "url": "https://example.com/", "hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "byte": "YWJj", "binary": "abc",
}

func sampleText(s *openapi3.Schema) (string, error) {
	value, known := formatSamples[s.Format]
	if !known {
		value = "string"
	}
	if s.Pattern != "" {
		return "", errors.New("a text with a pattern needs an example")
	}
	if s.MinLength > maxLength {
		return "", errors.New("so long a text needs an example")
	}
	if !known {
		value += strings.Repeat("x", max(0, int(s.MinLength)-len(value)))
		if s.MaxLength != nil && uint64(len(value)) > *s.MaxLength {
			value = value[:*s.MaxLength]
		}
	}
	n := uint64(len(value))
	if n < s.MinLength || s.MaxLength != nil && n > *s.MaxLength {
		return "", errors.New("a text of this length needs an example")
	}
	return value, nil
}

// sampleNumber returns a number of s, a multiple of step unless that is 0.
func sampleNumber(s *openapi3.Schema, step float64) (any, error) {
	low, high, open := math.Inf(-1), math.Inf(1), false
	if s.Min != nil {
		low, open = *s.Min, s.ExclusiveMin.IsTrue()
	}
	if v := s.ExclusiveMin.Value; v != nil && *v >= low {
		low, open = *v, true
	}
	if s.Max != nil {
		high = *s.Max
	}
	if v := s.ExclusiveMax.Value; v != nil {
		high = min(high, *v)
	}
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		step = *s.MultipleOf
	}
	unit := step
	if unit == 0 {
		unit = 1
	}
	value := max(unit, math.Ceil(low/unit)*unit)
	if open && value <= low {
		value += unit
	}
	if value >= high {
		value = math.Floor(high/unit) * unit
		if s.ExclusiveMax.IsSet() && value >= high {
			value -= unit
		}
	}
	if value < low || open && value <= low || value > high || math.Abs(value) > 1<<53 {
		return nil, errors.New("a number within these bounds needs an example")
	}
	return value, nil
}
