package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// goTexts are the texts of a Go file that its users may read: the literals with a space in them.
func goTexts(src []byte) (out []textLine) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil // checkNames reports it
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			out = append(out, literalLines(n, fset.Position(n.Pos()).Line)...)
		}
		return true
	})
	return out
}

func literalLines(lit *ast.BasicLit, first int) (out []textLine) {
	text, err := strconv.Unquote(lit.Value)
	if lit.Kind != token.STRING || err != nil || !strings.Contains(text, " ") {
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		at := first
		if lit.Value[0] == '`' {
			at += i
		}
		out = append(out, textLine{at, stripQuotes(line)})
	}
	return out
}

// isProduct reports whether users see the texts of the file.
func isProduct(path string) bool {
	if strings.HasSuffix(filepath.Base(path), "_test.go") {
		return false
	}
	for _, dir := range strings.Split(filepath.ToSlash(filepath.Dir(path)), "/") {
		if dir == "scripts" || strings.HasSuffix(dir, "test") {
			return false
		}
	}
	return true
}
