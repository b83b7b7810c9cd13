package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// vague are names that say nothing of a function: a verb needs its object, and the others are none.
var vague = set(`again ask asked at between do drop each end ended failed fate fill hold keep late leave
	left look number put refused same settle show still sure take text with`)

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(words) {
		all[w] = true
	}
	return all
}

// checkNames looks at the names of functions, but for those of tests.
func checkNames(path string, src []byte) (found []string) {
	if strings.HasSuffix(path, "_test.go") {
		return nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && vague[f.Name.Name] {
			found = append(found, fmt.Sprintf("%s: func %s: name the verb and its object", fset.Position(f.Name.Pos()), f.Name.Name))
		}
	}
	return found
}
