package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	CgoFiles                           []string
	DepOnly                            bool
	ForTest                            string
}

// update rewrites the packages that match the patterns, and returns the files that have changed.
func update(dir string, patterns []string, dry bool) ([]string, error) {
	packages, err := list(dir, patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range packages {
		if p.Export != "" && p.ForTest == "" {
			exports[p.ImportPath] = p.Export
		}
	}
	var changed []string
	for _, p := range packages {
		if p.DepOnly || p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		for _, files := range [][]string{slices.Concat(p.GoFiles, p.CgoFiles, p.TestGoFiles), p.XTestGoFiles} {
			some, err := updatePackage(p, files, exports, dry)
			changed = append(changed, some...)
			if err != nil {
				return changed, err
			}
		}
	}
	return changed, nil
}

// list asks the go command for the packages, and for compiled types of what they import.
func list(dir string, patterns []string) ([]*listed, error) {
	args := append([]string{"list", "-e", "-export", "-deps", "-test", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,DepOnly,ForTest"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	var all []*listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

func updatePackage(p *listed, names []string, exports map[string]string, dry bool) (changed []string, err error) {
	fset := token.NewFileSet()
	var files []*ast.File
	var paths []string
	for _, name := range names {
		path := filepath.Join(p.Dir, name)
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files, paths = append(files, f), append(paths, path)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := &types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			if exports[path] == "" {
				return nil, fmt.Errorf("no types of %s", path)
			}
			return os.Open(exports[path])
		}),
		Error: func(error) {}, // what does not compile is left as it is
	}
	path := p.ImportPath
	if len(files) > 0 && strings.HasSuffix(files[0].Name.Name, "_test") {
		path += "_test"
	}
	_, _ = config.Check(path, fset, files, info)
	for i, f := range files {
		src, err := os.ReadFile(paths[i])
		if err != nil {
			return changed, err
		}
		e := &editor{pkg: path, syntax: f, fset: fset, info: info, src: src}
		e.editFile()
		if len(e.edits) == 0 {
			continue
		}
		text, err := format.Source([]byte(e.text(0, len(src))))
		if err != nil {
			return changed, fmt.Errorf("%s: %w", paths[i], err)
		}
		changed = append(changed, paths[i])
		if !dry {
			if err := os.WriteFile(paths[i], text, 0o644); err != nil { //nolint:gosec // a source file
				return changed, err
			}
		}
	}
	return changed, nil
}

// editor collects the edits of one file.
type editor struct {
	pkg    string // the path of its package
	syntax *ast.File
	fset   *token.FileSet
	info   *types.Info
	src    []byte
	edits  []edit // sorted, and none within another
}

type edit struct {
	from, to int
	text     string
}

func (e *editor) offset(p token.Pos) int { return e.fset.Position(p).Offset }

// add replaces a part of the source, with the edits in it.
func (e *editor) add(from, to int, text string) {
	e.edits = slices.DeleteFunc(e.edits, func(o edit) bool { return o.from >= from && o.to <= to })
	e.edits = append(e.edits, edit{from, to, text})
	slices.SortFunc(e.edits, func(a, b edit) int { return a.from - b.from })
}

// text returns a part of the source as it is after the edits.
func (e *editor) text(from, to int) string {
	var b strings.Builder
	at := from
	for _, o := range e.edits {
		if o.from < from || o.to > to {
			continue
		}
		b.Write(e.src[at:o.from])
		b.WriteString(o.text)
		at = o.to
	}
	b.Write(e.src[at:to])
	return b.String()
}

// editFile edits from the inside out, so that a literal moves what has been edited in it.
func (e *editor) editFile() {
	var nodes []ast.Node
	ast.Inspect(e.syntax, func(n ast.Node) bool {
		if n != nil {
			nodes = append(nodes, n)
		}
		return true
	})
	for _, n := range slices.Backward(nodes) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			e.selector(n)
		case *ast.CompositeLit:
			e.literal(n)
		}
	}
}

// moved returns the fields of a struct that are elsewhere now.
func moved(t types.Type) map[string]place {
	named, ok := types.Unalias(pointed(t)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil
	}
	fields := structs[named.Obj().Pkg().Path()+"."+named.Obj().Name()]
	if fields != nil && !hasFields(named, fields) {
		return nil // it is the struct as it is now
	}
	return fields
}

// pointed returns what a pointer points to, and any other type as it is.
func pointed(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// hasFields reports whether a struct is that of v0.1.0, with fields that are elsewhere now.
func hasFields(named *types.Named, fields map[string]place) bool {
	s, ok := named.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if _, moved := fields[f.Name()]; moved {
			return true
		}
	}
	return false
}

// selector edits o.Field to o.Group.Field.
func (e *editor) selector(n *ast.SelectorExpr) {
	s := e.info.Selections[n]
	if s == nil || s.Kind() != types.FieldVal {
		return
	}
	t := s.Recv()
	for _, i := range s.Index()[:len(s.Index())-1] { // through embedded structs
		t = fieldOf(t, i)
	}
	if to, ok := moved(t)[n.Sel.Name]; ok {
		e.add(e.offset(n.Sel.Pos()), e.offset(n.Sel.End()), to.group+"."+to.field)
	}
}

func fieldOf(t types.Type, i int) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.Underlying().(*types.Struct).Field(i).Type() //nolint:forcetypeassert,errcheck // a selection goes through structs
}

// literal groups the moved fields of a literal, each group where its first field was.
func (e *editor) literal(n *ast.CompositeLit) {
	fields := moved(e.info.Types[n].Type)
	if fields == nil || len(n.Elts) == 0 {
		return
	}
	groups := map[string][]string{}
	types := map[string]string{}
	var order []string
	lines := e.fset.Position(n.Lbrace).Line != e.fset.Position(n.Rbrace).Line
	for _, x := range n.Elts {
		kv, ok := x.(*ast.KeyValueExpr)
		if !ok {
			return // without names
		}
		key := kv.Key.(*ast.Ident).Name //nolint:forcetypeassert,errcheck // of a struct
		value := e.text(e.offset(kv.Value.Pos()), e.offset(kv.Value.End()))
		to, ok := fields[key]
		if !ok {
			order = append(order, key)
			groups[key] = []string{key + ": " + value}
			continue
		}
		if types[to.group] == "" {
			order, types[to.group] = append(order, to.group), to.groupType
			groups[to.group] = nil
		}
		groups[to.group] = append(groups[to.group], to.field+": "+value)
	}
	if len(types) == 0 {
		return
	}
	at := e.offset(n.Lbrace) + 1
	if hasComments := bytes.Contains(e.src[at:e.offset(n.Rbrace)], []byte("//")); hasComments {
		e.literalWithComments(n, fields)
		return
	}
	pkg := e.packageOf(n)
	var parts []string
	for _, name := range order {
		if types[name] == "" {
			parts = append(parts, groups[name][0])
			continue
		}
		parts = append(parts, name+": "+pkg+types[name]+"{"+strings.Join(groups[name], ", ")+"}")
	}
	text := strings.Join(parts, ", ")
	if lines {
		text = "\n" + strings.Join(parts, ",\n") + ",\n"
	}
	e.add(at, e.offset(n.Rbrace), text)
}

// literalWithComments keeps each field with its comments: a group has one field each, and the
// fields of one group that follow each other are joined.
func (e *editor) literalWithComments(n *ast.CompositeLit, fields map[string]place) {
	pkg := e.packageOf(n)
	done := map[string]bool{}
	for i := 0; i < len(n.Elts); {
		kv := n.Elts[i].(*ast.KeyValueExpr)        //nolint:forcetypeassert,errcheck // literal has looked
		to, ok := fields[kv.Key.(*ast.Ident).Name] //nolint:forcetypeassert,errcheck // of a struct
		if !ok {
			i++
			continue
		}
		if done[to.group] {
			fmt.Fprintf(os.Stderr, "%s: move this field by hand into %s of the same literal\n", e.fset.Position(kv.Pos()), to.group)
			i++
			continue
		}
		done[to.group] = true
		last := i
		for last+1 < len(n.Elts) {
			next := n.Elts[last+1].(*ast.KeyValueExpr) //nolint:forcetypeassert,errcheck // literal has looked
			if fields[next.Key.(*ast.Ident).Name].group != to.group {
				break
			}
			last++
		}
		for j := i; j <= last; j++ {
			x := n.Elts[j].(*ast.KeyValueExpr)                                                         //nolint:forcetypeassert,errcheck // literal has looked
			e.add(e.offset(x.Key.Pos()), e.offset(x.Key.End()), fields[x.Key.(*ast.Ident).Name].field) //nolint:forcetypeassert,errcheck // of a struct
		}
		from, end := e.offset(n.Elts[i].Pos()), e.offset(n.Elts[last].End())
		open, shut := "{", "}"
		if e.fset.Position(n.Elts[i].Pos()).Line != e.fset.Position(n.Elts[last].End()).Line {
			open, shut = "{\n", ",\n}"
		}
		e.add(from, end, to.group+": "+pkg+to.groupType+open+e.text(from, end)+shut)
		i = last + 1
	}
}

// packageOf returns the name of the package of a literal's type as the file writes it, with the
// dot.
func (e *editor) packageOf(n *ast.CompositeLit) string {
	if sel, ok := n.Type.(*ast.SelectorExpr); ok {
		return sel.X.(*ast.Ident).Name + "." //nolint:forcetypeassert,errcheck // a qualified type
	}
	if n.Type != nil { // an unqualified name: its own package
		return ""
	}
	named, ok := types.Unalias(pointed(e.info.Types[n].Type)).(*types.Named)
	if !ok || named.Obj().Pkg().Path() == e.pkg {
		return ""
	}
	for _, i := range e.syntax.Imports {
		if i.Name != nil && i.Path.Value == strconv.Quote(named.Obj().Pkg().Path()) {
			return i.Name.Name + "."
		}
	}
	return named.Obj().Pkg().Name() + "."
}
