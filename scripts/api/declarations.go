package main

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/token"
	"strings"
)

// printer collects the lines of one file. Types are written as in its source.
type printer struct {
	set   *token.FileSet
	path  string
	lines []string
}

func (p *printer) add(parts ...string) {
	p.lines = append(p.lines, p.path+": "+strings.Join(parts, ""))
}

// text returns an expression as one line.
func (p *printer) text(n ast.Node) string {
	var b bytes.Buffer
	if err := format.Node(&b, p.set, n); err != nil {
		panic(err) // it was parsed
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (p *printer) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		p.function(d)
	case *ast.GenDecl:
		p.group(d)
	}
}

func (p *printer) function(f *ast.FuncDecl) {
	if !f.Name.IsExported() {
		return
	}
	signature := strings.TrimPrefix(p.text(unnamed(f.Type)), "func")
	if f.Recv == nil {
		p.add("func ", f.Name.Name, signature)
		return
	}
	if ast.IsExported(receiver(f)) {
		p.add("method (", p.text(f.Recv.List[0].Type), ") ", f.Name.Name, signature)
	}
}

// group adds constants, variables or types. A constant without a type has that of the one before.
func (p *printer) group(d *ast.GenDecl) {
	last := ""
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				p.named(s)
			}
		case *ast.ValueSpec:
			kind := ""
			if s.Type != nil {
				kind = " " + p.text(s.Type)
			}
			if d.Tok == token.CONST && s.Type == nil && len(s.Values) == 0 {
				kind = last
			}
			last = kind
			for _, n := range s.Names {
				if n.IsExported() {
					p.add(d.Tok.String(), " ", n.Name, kind)
				}
			}
		}
	}
}

// named adds a type: its exported fields or its methods, each as a line, or what it is.
func (p *printer) named(s *ast.TypeSpec) {
	name := s.Name.Name
	if s.TypeParams != nil {
		name += "[" + p.fields(s.TypeParams) + "]"
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		p.add("type ", name, " struct")
		for _, f := range t.Fields.List {
			if len(f.Names) == 0 {
				p.add("type ", name, " struct, embedded ", p.text(f.Type))
			}
			for _, n := range f.Names {
				if n.IsExported() {
					p.add("type ", name, " struct, ", n.Name, " ", p.text(unnamed(f.Type)))
				}
			}
		}
	case *ast.InterfaceType:
		p.add("type ", name, " interface")
		for _, f := range t.Methods.List {
			if len(f.Names) == 0 {
				p.add("type ", name, " interface, embedded ", p.text(f.Type))
			}
			for _, n := range f.Names {
				p.add("type ", name, " interface, ", n.Name, strings.TrimPrefix(p.text(unnamed(f.Type)), "func"))
			}
		}
	default:
		equal := " "
		if s.Assign.IsValid() {
			equal = " = "
		}
		p.add("type ", name, equal, p.text(unnamed(s.Type)))
	}
}

func (p *printer) fields(l *ast.FieldList) string {
	var all []string
	for _, f := range l.List {
		for _, n := range f.Names {
			all = append(all, n.Name+" "+p.text(f.Type))
		}
	}
	return strings.Join(all, ", ")
}

// unnamed returns a function type without the names of its parameters, which callers do not write.
func unnamed(e ast.Expr) ast.Expr {
	f, ok := e.(*ast.FuncType)
	if !ok {
		return e
	}
	bare := func(l *ast.FieldList) *ast.FieldList {
		if l == nil {
			return nil
		}
		out := &ast.FieldList{}
		for _, field := range l.List {
			for range max(1, len(field.Names)) {
				out.List = append(out.List, &ast.Field{Type: unnamed(field.Type)})
			}
		}
		return out
	}
	return &ast.FuncType{TypeParams: f.TypeParams, Params: bare(f.Params), Results: bare(f.Results)}
}
