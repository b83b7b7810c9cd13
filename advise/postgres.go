package advise

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"

	"github.com/wasilibs/go-pgquery/parser"
)

// onePostgres: the parser is the server's own, compiled for another machine; each caller at the same time would compile it anew.
var onePostgres sync.Mutex

// parsePostgres reads with the parser of PostgreSQL 17.
func parsePostgres(text string) ([]statement, error) {
	if err := postgresBounded(text); err != nil {
		return nil, err
	}
	tree, err := postgresTree(text)
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
		return nil, errors.New("advise: read as postgres: it is nested too deeply")
	}
	var all []statement
	for _, p := range parsed.Stmts {
		st := postgresStatement(p.Stmt)
		st.at, st.end = start(text, p.Location), len(text)
		if p.Len > 0 {
			st.end = p.Location + p.Len
		}
		all = append(all, st)
	}
	return all, nil
}

func postgresTree(text string) (string, error) {
	onePostgres.Lock()
	defer onePostgres.Unlock()
	return parser.ParseToJSON(text)
}

// postgresError finds the place in the parser's error, which is a struct of a package that nobody else may name.
func postgresError(text string, err error) error {
	out := &SyntaxError{Message: err.Error()}
	if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
		if f := v.FieldByName("Cursorpos"); f.IsValid() && f.CanInt() && f.Int() > 0 {
			runes := []rune(text)
			out.Line, out.Column = position(text, len(string(runes[:min(int(f.Int())-1, len(runes))])))
		}
	}
	if strings.Contains(text, "?") {
		out.Message += "; parameters of PostgreSQL are $1, $2, …"
	}
	return out
}

// node is a part of the tree: one name, and what it holds.
type node map[string]any

// only is the name and the fields of {"Name": {…}}.
func only(v any) (name string, fields node) {
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

func (n node) text(name string) string {
	s, _ := n[name].(string)
	return s
}

func (n node) yes(name string) bool {
	b, _ := n[name].(bool)
	return b
}

func (n node) list(name string) []any {
	l, _ := n[name].([]any)
	return l
}

func (n node) in(name string) node {
	m, _ := n[name].(map[string]any)
	return m
}

// strs are the texts of a list of {"String": {"sval": …}}.
func strs(list []any) (all []string) {
	for _, v := range list {
		if name, f := only(v); name == "String" {
			all = append(all, strings.ToLower(f.text("sval")))
		}
	}
	return all
}
