package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
)

const (
	maxSource = 400
	maxTest   = 800
	maxMedian = 200
	// maxFunction is the limit for the lines between the braces of a function.
	maxFunction = 60
	// maxMain limits a main.go to a list of the parts of the program.
	maxMain = 39
	// maxExample is the limit for examples, which README shows as whole programs.
	maxExample = 50
)

var sizeRules = []Rule{
	{"files are short", filesAreShort},
	{"the median is short", medianIsShort},
	{"functions are short", functionsAreShort},
}

// sources are the kinds of file that count as code.
var sources = map[string]bool{".go": true, ".js": true, ".lua": true, ".sh": true, ".sql": true}

func filesAreShort(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.Files {
		limit := maxSource
		switch {
		case !sources[path.Ext(f.Path)]:
			continue
		case f.Test():
			limit = maxTest
		case path.Base(f.Path) == "main.go" && within(f.Path, "examples"):
			limit = maxExample
		case path.Base(f.Path) == "main.go":
			limit = maxMain
		}
		if n := f.Lines(); n > limit {
			found = append(found, Violation{f.Path, fmt.Sprintf("%d lines, the limit is %d; split it by what it is about", n, limit)})
		}
	}
	return found
}

func medianIsShort(t *Tree) []Violation {
	var lines []int
	for _, f := range t.GoFiles() {
		if !f.Test() {
			lines = append(lines, f.Lines())
		}
	}
	if len(lines) == 0 {
		return []Violation{{".", "there are no Go files"}}
	}
	slices.Sort(lines)
	if m := lines[len(lines)/2]; m > maxMedian {
		return []Violation{{".", fmt.Sprintf("the median Go file has %d lines, the limit is %d", m, maxMedian)}}
	}
	return nil
}

func functionsAreShort(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.GoFiles() {
		if f.Test() || suite(f.Dir()) || ast.IsGenerated(f.AST) {
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
