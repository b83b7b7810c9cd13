package archtest

import (
	"fmt"
	"go/ast"
	"path"
)

const (
	// maxFunction is the limit for the lines between the braces of a function. Files have no limit:
	// a file is a subject, as long as it is.
	maxFunction = 80
	// maxMain limits a main.go to a list of the parts of the program.
	maxMain = 39
	// maxExample is the limit for examples, which README shows as whole programs.
	maxExample = 50
)

var sizeRules = []Rule{
	{"programs are lists of their parts", mainsAreShort},
	{"functions are short", functionsAreShort},
}

func mainsAreShort(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.Files {
		if path.Base(f.Path) != "main.go" {
			continue
		}
		limit := maxMain
		if isWithin(f.Path, "examples") {
			limit = maxExample
		}
		if n := f.Lines(); n > limit {
			found = append(found, Violation{f.Path, fmt.Sprintf("%d lines, the limit is %d; split it by what it is about", n, limit)})
		}
	}
	return found
}

func functionsAreShort(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.GoFiles() {
		if f.Test() || isTestSuite(f.Dir()) || ast.IsGenerated(f.AST) {
			continue
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			n := f.Fset.Position(fn.Body.Rbrace).Line - f.Fset.Position(fn.Body.Lbrace).Line - 1
			if n > maxFunction {
				found = append(found, f.At(fn, fmt.Sprintf("%s has %d lines, the limit is %d; split it so that each part has a name", fn.Name.Name, n, maxFunction)))
			}
		}
	}
	return found
}
