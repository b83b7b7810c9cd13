package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Tree is the repository as the rules see it.
type Tree struct {
	// Files are all text files except those in skipDirs, sorted by path.
	Files []*File
	// Modules are sorted by directory, the root module (directory ".") first.
	Modules []*Module
	// Uses are the directories in go.work, cleaned.
	Uses []string
	// Replaces are the replace lines of go.work, as in Module.
	Replaces map[string]string
	// Broken has what could not be read or parsed.
	Broken []Violation
}

// File is one text file.
type File struct {
	// Path is relative to the repository, with forward slashes.
	Path string
	Text string
	// AST is set for Go files that parse, together with Fset.
	AST  *ast.File
	Fset *token.FileSet
}

// Violation is one place that breaks a rule.
type Violation struct {
	// Path is the file or directory, possibly with a line.
	Path string
	// Text says what is wrong and what to do about it.
	Text string
}

func (v Violation) String() string { return v.Path + ": " + v.Text }

// skipDirs are not read: history, golden data in special formats, and build output.
var skipDirs = map[string]bool{".git": true, "testdata": true, "bin": true, "cache": true, "dist": true, "node_modules": true}

// Read reads a tree. It returns an error only if the file system cannot be read; malformed files go
// to Broken.
func Read(root fs.FS) (*Tree, error) {
	t := &Tree{}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipDirs[d.Name()] {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if utf8.Valid(data) {
			t.addFile(p, string(data))
		}
		return nil
	})
	slices.SortFunc(t.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(t.Modules, func(a, b *Module) int { return strings.Compare(a.Dir, b.Dir) })
	return t, err
}

func (t *Tree) addFile(p, text string) {
	f := &File{Path: p, Text: text}
	t.Files = append(t.Files, f)
	switch {
	case path.Base(p) == "go.mod":
		t.Modules = append(t.Modules, parseModule(path.Dir(p), text))
	case p == "go.work":
		lines := parseDirectives(text)
		for _, use := range lines["use"] {
			t.Uses = append(t.Uses, path.Clean(use[0]))
		}
		t.Replaces = parseReplaces(lines)
	case strings.HasSuffix(p, ".go"):
		f.Fset = token.NewFileSet()
		parsed, err := parser.ParseFile(f.Fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Broken = append(t.Broken, Violation{p, err.Error()})
			return
		}
		f.AST = parsed
	}
}

// GoFiles returns the Go files that parse.
func (t *Tree) GoFiles() []*File {
	return slices.DeleteFunc(slices.Clone(t.Files), func(f *File) bool { return f.AST == nil })
}

// File returns the file with a path, or nil.
func (t *Tree) File(p string) *File {
	i := slices.IndexFunc(t.Files, func(f *File) bool { return f.Path == p })
	if i < 0 {
		return nil
	}
	return t.Files[i]
}

// Dir returns the directory of the file; "." is the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Test reports whether only go test builds the file.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Lines returns the number of lines of the file.
func (f *File) Lines() int {
	n := strings.Count(f.Text, "\n")
	if f.Text != "" && !strings.HasSuffix(f.Text, "\n") {
		n++
	}
	return n
}

// Imports returns the import paths of a Go file, in order.
func (f *File) Imports() []string {
	var paths []string
	for _, spec := range f.AST.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// At returns a violation at a node of a Go file.
func (f *File) At(n ast.Node, text string) Violation {
	return Violation{f.Path + ":" + strconv.Itoa(f.Fset.Position(n.Pos()).Line), text}
}

// localName returns the name of an imported package in a Go file, or "" if the file does not import
// it.
func (f *File) localName(importPath string) string {
	for i, p := range f.Imports() {
		if p != importPath {
			continue
		}
		if alias := f.AST.Imports[i].Name; alias != nil {
			return alias.Name
		}
		return path.Base(p)
	}
	return ""
}
