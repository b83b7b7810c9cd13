package advise

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/sqlc-dev/oliphant/parser"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mostNodes is more than a text of mostBytes has without copies: "SELECT a,a,…" has three for each
// byte.
const mostNodes = 1 << 20

// parsePostgres parses text with the grammar of PostgreSQL 18.
func parsePostgres(text string) ([]statement, error) {
	if err := checkPostgresDepth(text); err != nil {
		return nil, err
	}
	tree, err := postgresTree(replaceInvalidUTF8(text))
	if err != nil {
		return nil, postgresError(text, err)
	}
	var parsed struct {
		Stmts []struct {
			Stmt     map[string]any `json:"stmt"`
			Location int            `json:"stmt_location"`
			Len      int            `json:"stmt_len"`
		} `json:"stmts"`
	}
	if err := json.Unmarshal([]byte(tree), &parsed); err != nil {
		return nil, errors.New("advise: read as postgres: a statement is nested too deeply; divide it")
	}
	var all []statement
	for _, p := range parsed.Stmts {
		st := postgresStatement(p.Stmt)
		st.at, st.end = skipBlanks(text, p.Location), len(text)
		if p.Len > 0 {
			st.end = p.Location + p.Len
		}
		all = append(all, st)
	}
	return all, nil
}

// postgresTree returns the tree as JSON. In the parser's tree the columns of (a, b) = (SELECT …)
// share the query, but JSON has a copy for each. Nested queries of this form grow exponentially
// with their depth, so postgresTree refuses them before it writes the JSON.
func postgresTree(text string) (string, error) {
	tree, err := parser.ParseToTree(text)
	if err != nil {
		return "", err
	}
	if left := mostNodes; !hasFewNodes(tree.ProtoReflect(), &left) {
		return "", errors.New("columns are set from queries nested too often, as in (a, b) = (SELECT …); write it in another way")
	}
	return parser.ParseToJSON(text)
}

// hasFewNodes counts down for each message in m, and counts a shared message each time. It reports
// whether left was enough.
func hasFewNodes(m protoreflect.Message, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i, l := 0, v.List(); i < l.Len() && *left >= 0; i++ {
				hasFewNodes(l.Get(i).Message(), left)
			}
		default:
			hasFewNodes(v.Message(), left)
		}
		return *left >= 0
	})
	return *left >= 0
}

// replaceInvalidUTF8 replaces each byte that is not UTF-8, as in files of older character sets, by
// a letter, so that positions stay the same.
func replaceInvalidUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	out := []byte(text)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			out[i] = '_'
		}
		i += n
	}
	return string(out)
}

// postgresError computes the position from the parser's error, which counts runes.
func postgresError(text string, err error) error {
	out := &SyntaxError{Message: err.Error()}
	if e, ok := errors.AsType[*parser.Error](err); ok && e.Cursorpos > 0 {
		runes := []rune(text)
		out.Line, out.Column = lineAndColumn(text, len(string(runes[:min(e.Cursorpos-1, len(runes))])))
	}
	if strings.Contains(text, "?") {
		out.Message += "; parameters of PostgreSQL are $1, $2, …"
	}
	return out
}

// treeNode is a part of the tree: one name and its content.
type treeNode map[string]any

// singleField returns the name and the fields of {"Name": {…}}.
func singleField(v any) (name string, fields treeNode) {
	m, ok := v.(map[string]any)
	if !ok {
		return "", nil
	}
	for k, in := range m {
		if f, ok := in.(map[string]any); ok && len(m) == 1 {
			return k, f
		}
	}
	return "", nil
}

func (n treeNode) textField(name string) string {
	s, _ := n[name].(string)
	return s
}

func (n treeNode) boolField(name string) bool {
	b, _ := n[name].(bool)
	return b
}

func (n treeNode) listField(name string) []any {
	l, _ := n[name].([]any)
	return l
}

func (n treeNode) childNode(name string) treeNode {
	m, _ := n[name].(map[string]any)
	return m
}

// stringTexts returns the texts of a list of {"String": {"sval": …}}.
func stringTexts(list []any) (all []string) {
	for _, v := range list {
		if name, f := singleField(v); name == "String" {
			all = append(all, strings.ToLower(f.textField("sval")))
		}
	}
	return all
}
