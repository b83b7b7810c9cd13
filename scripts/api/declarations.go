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

// exprText returns an expression as one line.
func (p *printer) exprText(n ast.Node) string {
	var b bytes.Buffer
	if err := format.Node(&b, p.set, n); err != nil {
		panic(err) // it was parsed
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (p *printer) printDecl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		p.printFunc(d)
	case *ast.GenDecl:
		p.printGroup(d)
	}
}

func (p *printer) printFunc(f *ast.FuncDecl) {
	if !f.Name.IsExported() {
		return
	}
	signature := strings.TrimPrefix(p.exprText(withoutNames(f.Type)), "func")
	if f.Recv == nil {
		p.add("func ", f.Name.Name, signature)
		return
	}
	if ast.IsExported(receiverName(f)) {
		p.add("method (", p.exprText(f.Recv.List[0].Type), ") ", f.Name.Name, signature)
	}
}

// printGroup adds constants, variables or types. A constant without a type has that of the one
// before.
func (p *printer) printGroup(d *ast.GenDecl) {
	last := ""
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				p.printType(s)
			}
		case *ast.ValueSpec:
			kind := ""
			if s.Type != nil {
				kind = " " + p.exprText(s.Type)
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

// printType adds a type: its exported fields or its methods, each as a line, or what it is.
func (p *printer) printType(s *ast.TypeSpec) {
	name := s.Name.Name
	if s.TypeParams != nil {
		name += "[" + p.fieldList(s.TypeParams) + "]"
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		p.add("type ", name, " struct")
		for _, f := range t.Fields.List {
			if len(f.Names) == 0 {
				p.add("type ", name, " struct, embedded ", p.exprText(f.Type))
			}
			for _, n := range f.Names {
				if n.IsExported() {
					p.add("type ", name, " struct, ", n.Name, " ", p.exprText(withoutNames(f.Type)))
				}
			}
		}
	case *ast.InterfaceType:
		p.add("type ", name, " interface")
		for _, f := range t.Methods.List {
			if len(f.Names) == 0 {
				p.add("type ", name, " interface, embedded ", p.exprText(f.Type))
			}
			for _, n := range f.Names {
				p.add("type ", name, " interface, ", n.Name, strings.TrimPrefix(p.exprText(withoutNames(f.Type)), "func"))
			}
		}
	default:
		equal := " "
		if s.Assign.IsValid() {
			equal = " = "
		}
		p.add("type ", name, equal, p.exprText(withoutNames(s.Type)))
	}
}

func (p *printer) fieldList(l *ast.FieldList) string {
	var all []string
	for _, f := range l.List {
		for _, n := range f.Names {
			all = append(all, n.Name+" "+p.exprText(f.Type))
		}
	}
	return strings.Join(all, ", ")
}

// withoutNames returns a function type without the names of its parameters, which callers do not
// write.
func withoutNames(e ast.Expr) ast.Expr {
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
				out.List = append(out.List, &ast.Field{Type: withoutNames(field.Type)})
			}
		}
		return out
	}
	return &ast.FuncType{TypeParams: f.TypeParams, Params: bare(f.Params), Results: bare(f.Results)}
}
