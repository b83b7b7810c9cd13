package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unpublished are the directories whose packages are for this repository alone.
var unpublished = []string{"cmd", "deploy", "docs", "examples", "scripts", "test"}

const module = "github.com/retrysafe/retrysafe"

// exportedNames returns the exported declarations of all packages that users import, sorted.
func exportedNames(root string) (lines []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "internal" || name == "testdata" || slices.Contains(unpublished, rel)) {
			return filepath.SkipDir
		}
		found, err := ofDirectory(path, strings.TrimSuffix(module+"/"+rel, "/."))
		lines = append(lines, found...)
		return err
	})
	slices.Sort(lines)
	return slices.Compact(lines), err
}

// ofDirectory returns the declarations of the package in a directory.
func ofDirectory(dir, path string) (lines []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if f.Name.Name == "main" {
			return nil, nil
		}
		p := printer{set: set, path: path}
		for _, d := range f.Decls {
			p.printDecl(d)
		}
		lines = append(lines, p.lines...)
	}
	return lines, nil
}

// receiverName returns the name of the type of a method, without its star and its type parameters.
func receiverName(f *ast.FuncDecl) string {
	e := f.Recv.List[0].Type
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
