package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

const (
	mostMistakes = 10 // that are reported at once
	mostSearched = 50 // that are looked for: the decoder does not go by the order of lines
)

// findMistakes returns first, and what else the decoder says about the file if the option with the
// mistake is left out, one after the other. Each stands alone: an option is left out as a whole, so
// that nothing is reported that only its absence causes.
func findMistakes(name, dir string, source []byte, first *Error) error {
	parsed, err := parser.ParseBytes(source, 0)
	if err != nil || len(parsed.Docs) != 1 {
		return first
	}
	root, ok := parsed.Docs[0].Body.(*ast.MappingNode)
	all := []error{first}
	for last := first; ok && len(all) < mostSearched && removeOption(root, last); {
		err := yaml.NewDecoder(strings.NewReader(""), yaml.Strict()).DecodeFromNodeContext(contextWithDir(dir), root, new(file))
		if err == nil {
			break
		}
		if last = errorFromMessage(name, yaml.FormatError(err, false, false), err); last.Line == 0 {
			break
		}
		all = append(all, last)
	}
	return joinInOrder(all)
}

// joinInOrder joins errors in the order of their places, at most ten.
func joinInOrder(all []error) error {
	if len(all) == 1 {
		return all[0]
	}
	slices.SortStableFunc(all, func(a, b error) int {
		x, y := new(Error), new(Error)
		_, _ = errors.As(a, &x), errors.As(b, &y)
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	return errors.Join(all[:min(len(all), mostMistakes)]...)
}

// removeOption removes the option that has the mistake: an entry of the file, of one of its
// sections, or of a route. It returns false if there is none, or if other parts of the file may
// refer to it.
func removeOption(root *ast.MappingNode, mistake *Error) bool {
	in := root
	i := entryIndex(in, mistake)
	if i < 0 {
		return false
	}
	inner, _ := in.Values[i].Value.(*ast.MappingNode)
	if routes, ok := in.Values[i].Value.(*ast.SequenceNode); ok {
		for _, one := range routes.Values {
			if entry, ok := one.(*ast.MappingNode); ok && entryIndex(entry, mistake) >= 0 {
				inner = entry
			}
		}
	}
	if inner != nil {
		if at := entryIndex(inner, mistake); at >= 0 {
			in, i = inner, at
		}
	}
	if len(ast.Filter(ast.AnchorType, in.Values[i])) > 0 {
		return false
	}
	in.Values = slices.Delete(in.Values, i, i+1)
	return true
}

// entryIndex returns the index of the entry of m in which a mistake is: the last one that begins at
// or before it. It returns -1 if m begins later.
func entryIndex(m *ast.MappingNode, mistake *Error) int {
	found := -1
	for i, v := range m.Values {
		at := v.Key.GetToken().Position
		if at.Line < mistake.Line || at.Line == mistake.Line && at.Column <= mistake.Column {
			found = i
		}
	}
	return found
}
