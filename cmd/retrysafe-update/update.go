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

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath, Dir, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	CgoFiles                           []string
	DepOnly                            bool
	ForTest                            string
}

// updatePackages rewrites the packages that match the patterns, and returns the files that have
// changed.
func updatePackages(dir string, patterns []string, dry bool) ([]string, error) {
	packages, err := listPackages(dir, patterns)
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

// listPackages asks the go command for the packages, and for compiled types of what they import.
func listPackages(dir string, patterns []string) ([]*goPackage, error) {
	args := append([]string{"list", "-e", "-export", "-deps", "-test", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,DepOnly,ForTest"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	var all []*goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(goPackage)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

func updatePackage(p *goPackage, names []string, exports map[string]string, dry bool) (changed []string, err error) {
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
		text, err := format.Source([]byte(e.editedText(0, len(src))))
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

func (e *editor) offsetOf(p token.Pos) int { return e.fset.Position(p).Offset }

// replaceSource replaces a part of the source, with the edits in it.
func (e *editor) replaceSource(from, to int, text string) {
	e.edits = slices.DeleteFunc(e.edits, func(o edit) bool { return o.from >= from && o.to <= to })
	e.edits = append(e.edits, edit{from, to, text})
	slices.SortFunc(e.edits, func(a, b edit) int { return a.from - b.from })
}

// editedText returns a part of the source as it is after the edits.
func (e *editor) editedText(from, to int) string {
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
			e.editSelector(n)
		case *ast.CompositeLit:
			e.editLiteral(n)
		case *ast.CallExpr:
			e.editCallOptions(n)
		case *ast.ImportSpec:
			e.editImport(n)
		}
	}
}

// editCallOptions edits f(&retrysafe.Call{Account: a}) to f(retrysafe.WithAccount(a)). What it
// cannot read it leaves to the compiler, which finds it.
func (e *editor) editCallOptions(n *ast.CallExpr) {
	for _, arg := range n.Args {
		ref, ok := arg.(*ast.UnaryExpr)
		if !ok {
			continue
		}
		lit, ok := ref.X.(*ast.CompositeLit)
		if !ok {
			continue
		}
		named, ok := types.Unalias(e.info.Types[lit].Type).(*types.Named)
		if !ok || named.Obj().Pkg() == nil || named.Obj().Pkg().Path()+"/"+named.Obj().Name() != module+"Call" {
			continue
		}
		options, ok := e.optionsOfCall(lit)
		if !ok {
			fmt.Fprintf(os.Stderr, "%s: write the options of this Call by hand: WithFingerprint, WithBinding, WithAccount, Detached, MustBeIssued\n", e.fset.Position(lit.Pos()))
			continue
		}
		if len(options) == 0 {
			options = []string{e.packageOf(lit) + "CallOption{}"} // changes nothing
		}
		e.replaceSource(e.offsetOf(arg.Pos()), e.offsetOf(arg.End()), strings.Join(options, ", "))
	}
}

// optionsOfCall returns the options that stand for a literal of Call.
func (e *editor) optionsOfCall(lit *ast.CompositeLit) (options []string, ok bool) {
	pkg, value := e.packageOf(lit), map[string]string{}
	for _, x := range lit.Elts {
		kv, ok := x.(*ast.KeyValueExpr)
		if !ok {
			return nil, false
		}
		value[kv.Key.(*ast.Ident).Name] = e.editedText(e.offsetOf(kv.Value.Pos()), e.offsetOf(kv.Value.End())) //nolint:forcetypeassert,errcheck // of a struct
	}
	for _, flag := range []string{"Detached", "MustBeIssued"} {
		if v := value[flag]; v != "" && v != "true" {
			return nil, false // known only when the program runs
		}
	}
	if digest, rule := value["Fingerprint"], value["FingerprintRule"]; digest != "" && rule != "" {
		options = append(options, pkg+"WithRuleFingerprint("+rule+", "+digest+")")
	} else if digest != "" {
		options = append(options, pkg+"WithFingerprint("+digest+")")
	}
	for _, field := range []string{"Binding", "Account"} {
		if v := value[field]; v != "" {
			options = append(options, pkg+"With"+field+"("+v+")")
		}
	}
	if value["Detached"] != "" {
		options = append(options, pkg+"Detached()")
	}
	if value["MustBeIssued"] == "" {
		return options, true // without it the fields of issued keys do not count
	}
	life, until := value["Life"], value["SignedUntil"]
	switch {
	case life == "" && until == "":
		options = append(options, pkg+"MustBeIssued()")
	case life != "" && until != "":
		options = append(options, pkg+"MustBeIssuedFor("+life+", "+until+")")
	default:
		return nil, false
	}
	return options, true
}

// editImport edits the path of a package that is in another folder now.
func (e *editor) editImport(n *ast.ImportSpec) {
	path, err := strconv.Unquote(n.Path.Value)
	rest, ours := strings.CutPrefix(path, module)
	if err != nil || !ours {
		return
	}
	folder, below, _ := strings.Cut(rest, "/")
	to, ok := folders[folder]
	if !ok {
		return
	}
	if below != "" {
		to += "/" + below
	}
	e.replaceSource(e.offsetOf(n.Path.Pos()), e.offsetOf(n.Path.End()), strconv.Quote(module+to))
}

// movedFields returns the fields of a struct that are elsewhere now.
func movedFields(t types.Type) map[string]fieldPlace {
	named, ok := types.Unalias(dereference(t)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil
	}
	fields := movedStructs[named.Obj().Pkg().Path()+"."+named.Obj().Name()]
	if fields != nil && !hasFields(named, fields) {
		return nil // it is the struct as it is now
	}
	return fields
}

// dereference returns what a pointer points to, and any other type as it is.
func dereference(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// hasFields reports whether a struct is that of v0.1.0, with fields that are elsewhere now.
func hasFields(named *types.Named, fields map[string]fieldPlace) bool {
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

// editSelector edits o.Field to o.Group.Field.
func (e *editor) editSelector(n *ast.SelectorExpr) {
	s := e.info.Selections[n]
	if s == nil || s.Kind() != types.FieldVal {
		return
	}
	t := s.Recv()
	for _, i := range s.Index()[:len(s.Index())-1] { // through embedded structs
		t = fieldOf(t, i)
	}
	if to, ok := movedFields(t)[n.Sel.Name]; ok {
		e.replaceSource(e.offsetOf(n.Sel.Pos()), e.offsetOf(n.Sel.End()), to.group+"."+to.field)
	}
}

func fieldOf(t types.Type, i int) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.Underlying().(*types.Struct).Field(i).Type() //nolint:forcetypeassert,errcheck // a selection goes through structs
}

// editLiteral groups the moved fields of a literal, each group where its first field was.
func (e *editor) editLiteral(n *ast.CompositeLit) {
	fields := movedFields(e.info.Types[n].Type)
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
		value := e.editedText(e.offsetOf(kv.Value.Pos()), e.offsetOf(kv.Value.End()))
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
	at := e.offsetOf(n.Lbrace) + 1
	if hasComments := bytes.Contains(e.src[at:e.offsetOf(n.Rbrace)], []byte("//")); hasComments {
		e.editCommentedLiteral(n, fields)
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
	e.replaceSource(at, e.offsetOf(n.Rbrace), text)
}

// editCommentedLiteral keeps each field with its comments: a group has one field each, and the
// fields of one group that follow each other are joined.
func (e *editor) editCommentedLiteral(n *ast.CompositeLit, fields map[string]fieldPlace) {
	pkg := e.packageOf(n)
	done := map[string]bool{}
	for i := 0; i < len(n.Elts); {
		kv := n.Elts[i].(*ast.KeyValueExpr)        //nolint:forcetypeassert,errcheck // editLiteral has looked
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
			next := n.Elts[last+1].(*ast.KeyValueExpr) //nolint:forcetypeassert,errcheck // editLiteral has looked
			if fields[next.Key.(*ast.Ident).Name].group != to.group {
				break
			}
			last++
		}
		for j := i; j <= last; j++ {
			x := n.Elts[j].(*ast.KeyValueExpr)                                                                       //nolint:forcetypeassert,errcheck // editLiteral has looked
			e.replaceSource(e.offsetOf(x.Key.Pos()), e.offsetOf(x.Key.End()), fields[x.Key.(*ast.Ident).Name].field) //nolint:forcetypeassert,errcheck // of a struct
		}
		from, end := e.offsetOf(n.Elts[i].Pos()), e.offsetOf(n.Elts[last].End())
		open, shut := "{", "}"
		if e.fset.Position(n.Elts[i].Pos()).Line != e.fset.Position(n.Elts[last].End()).Line {
			open, shut = "{\n", ",\n}"
		}
		e.replaceSource(from, end, to.group+": "+pkg+to.groupType+open+e.editedText(from, end)+shut)
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
	named, ok := types.Unalias(dereference(e.info.Types[n].Type)).(*types.Named)
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
