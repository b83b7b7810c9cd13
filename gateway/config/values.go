package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/route"
	"github.com/retrysafe/retrysafe/httpidem"
)

// The values of the configuration file. Each parses its own node, so that an error can say where it
// is.

// errorAtNode returns an error at a node.
func errorAtNode(n ast.Node, format string, args ...any) error {
	at := n.GetToken().Position
	return fmt.Errorf("[%d:%d] %s", at.Line, at.Column, fmt.Sprintf(format, args...))
}

// scalarText returns the text of a node that is one value.
func scalarText(n ast.Node, want string) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.AnchorNode:
		return scalarText(n.Value, want)
	}
	return "", errorAtNode(n, "write %s", want)
}

// isNone reports whether a node is the word none.
func isNone(n ast.Node) bool {
	text, _ := scalarText(n, "")
	return text == "none"
}

// parseChoice parses one of several words.
func parseChoice[T any](n ast.Node, words string, values ...T) (v T, err error) {
	names := strings.Split(words, " ")
	want := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	text, err := scalarText(n, want)
	if err != nil {
		return v, err
	}
	if i := slices.Index(names, text); i >= 0 {
		return values[i], nil
	}
	return v, errorAtNode(n, "%q is unknown; write %s%s", text, want, suggestName(text, names))
}

type size struct{ n int64 }

var units = []struct {
	name string
	n    int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func (v *size) UnmarshalYAML(n ast.Node) error {
	const want = "a size such as 64KiB or 1MiB"
	text, err := scalarText(n, want)
	if err != nil {
		return err
	}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		x, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || x <= 0 || x > math.MaxInt64/u.n {
			break
		}
		v.n = x * u.n
		return nil
	}
	return errorAtNode(n, "%q is no size; write %s", text, want)
}

type positiveCount struct{ n int64 }

func (v *positiveCount) UnmarshalYAML(n ast.Node) error {
	text, err := scalarText(n, "a number")
	if err != nil {
		return err
	}
	if v.n, err = strconv.ParseInt(text, 10, 32); err != nil || v.n <= 0 {
		return errorAtNode(n, "%q is no number above zero", text)
	}
	return nil
}

// copies is the memory for copies; off: -1.
type copies struct{ n int64 }

// bytes returns the memory that copies may take; zero: there are none.
func (v copies) bytes() int64 {
	switch {
	case v.n < 0:
		return 0
	case v.n == 0:
		return DefaultCopies
	}
	return v.n
}

// DefaultCopies is the default memory for copies of answers, in bytes.
const DefaultCopies = 16 << 20

func (v *copies) UnmarshalYAML(n ast.Node) error {
	if text, _ := scalarText(n, ""); text == "off" {
		v.n = -1
		return nil
	}
	var s size
	if err := s.UnmarshalYAML(n); err != nil {
		return errorAtNode(n, "copies take a size such as 16MiB, or off")
	}
	v.n = s.n
	return nil
}

// onOff is on unless it says off.
type onOff struct{ off bool }

func (v *onOff) UnmarshalYAML(n ast.Node) (err error) {
	v.off, err = parseChoice(n, "off on", true, false)
	return err
}

// acks is a number of replicas; -1: all.
type acks struct{ n int }

func (v *acks) UnmarshalYAML(n ast.Node) error {
	text, _ := scalarText(n, "")
	switch number, err := strconv.Atoi(text); {
	case text == "none":
		v.n = 0
	case text == "all":
		v.n = -1
	case err == nil && number > 0:
		v.n = number
	default:
		return errorAtNode(n, "%q is no number of replicas; write none, all, or a number above zero", text)
	}
	return nil
}

// pathExactness is whether the service tells similar paths apart.
type pathExactness struct{ exact bool }

func (v *pathExactness) UnmarshalYAML(n ast.Node) (err error) {
	v.exact, err = parseChoice(n, "exact any", true, false)
	return err
}

type onDoubt struct{ v retrysafe.OnDoubt }

func (v *onDoubt) UnmarshalYAML(n ast.Node) (err error) {
	v.v, err = parseChoice(n, "refuse reexecute", retrysafe.Refuse, retrysafe.Reexecute)
	return err
}

type after5xx struct{ v httpidem.After5xx }

func (v *after5xx) UnmarshalYAML(n ast.Node) (err error) {
	v.v, err = parseChoice(n, "auto keep release", httpidem.After5xxAuto, httpidem.After5xxKeep, httpidem.After5xxRelease)
	return err
}

type keepAnswer struct{ v httpidem.KeepAnswer }

func (v *keepAnswer) UnmarshalYAML(n ast.Node) (err error) {
	v.v, err = parseChoice(n, "always never", httpidem.KeepAlways, httpidem.KeepNever)
	return err
}

type matchPattern struct {
	text string
	line int
}

func (v *matchPattern) UnmarshalYAML(n ast.Node) error {
	text, err := scalarText(n, "a method and a path, for example POST /orders/**")
	if err != nil {
		return err
	}
	if _, err := route.Parse(text); err != nil {
		return errorAtNode(n, "%s", err)
	}
	*v = matchPattern{text, n.GetToken().Position.Line}
	return nil
}
