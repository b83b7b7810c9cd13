package main

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// knotted is a package whose files use each other.
type knotted struct {
	dir   string
	files []string
	// uses are the names of what a file uses of another: uses[from][to][name].
	uses map[string]map[string]map[string]bool
	// knot is the largest set of files that use each other in a circle.
	knot []string
}

func knotOf(dir string, fset *token.FileSet, pkg *types.Package, info *types.Info, files []string) *knotted {
	p := &knotted{dir: dir, files: files, uses: map[string]map[string]map[string]bool{}}
	for ident, obj := range info.Uses {
		if obj.Pkg() != pkg || !shared(pkg, obj) {
			continue
		}
		from, to := fileOf(fset, ident.Pos()), fileOf(fset, obj.Pos())
		if from == to {
			continue
		}
		if p.uses[from] == nil {
			p.uses[from] = map[string]map[string]bool{}
		}
		if p.uses[from][to] == nil {
			p.uses[from][to] = map[string]bool{}
		}
		p.uses[from][to][obj.Name()] = true
	}
	for _, set := range p.circles() {
		if len(set) > len(p.knot) {
			p.knot = set
		}
	}
	return p
}

func fileOf(fset *token.FileSet, at token.Pos) string {
	return filepath.Base(fset.Position(at).Filename)
}

// shared reports whether other files can use obj: a declaration of the package, a method or a
// field.
func shared(pkg *types.Package, obj types.Object) bool {
	switch obj := obj.(type) {
	case *types.Var:
		return obj.IsField() || obj.Parent() == pkg.Scope()
	case *types.Func:
		return true
	default:
		return obj.Parent() == pkg.Scope()
	}
}

// circles are the strongly connected components (Tarjan, 1972).
func (p *knotted) circles() (all [][]string) {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(f string) {
		index[f] = len(index) + 1
		low[f] = index[f]
		stack, on[f] = append(stack, f), true
		for to := range p.uses[f] {
			if index[to] == 0 {
				visit(to)
				low[f] = min(low[f], low[to])
			} else if on[to] {
				low[f] = min(low[f], index[to])
			}
		}
		if low[f] != index[f] {
			return
		}
		at := slices.Index(stack, f)
		set := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, one := range set {
			on[one] = false
		}
		slices.Sort(set)
		all = append(all, set)
	}
	for _, f := range p.files {
		if index[f] == 0 {
			visit(f)
		}
	}
	return all
}

func (p *knotted) print(w io.Writer, why bool) {
	n := len(p.knot)
	if n == 1 {
		n = 0 // a file by itself is no knot
	}
	fmt.Fprintf(w, "%-24s %3d files, %3d in the largest knot: %s\n", p.dir, len(p.files), n, strings.Join(p.knot, " "))
	if !why {
		return
	}
	type edge struct {
		from, to string
		names    []string
	}
	var edges []edge
	for _, from := range p.knot {
		for to, names := range p.uses[from] {
			if slices.Contains(p.knot, to) {
				edges = append(edges, edge{from, to, slices.Sorted(maps.Keys(names))})
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(len(a.names), len(b.names)), strings.Compare(a.to+a.from, b.to+b.from))
	})
	for _, e := range edges {
		fmt.Fprintf(w, "  %s -> %s: %s\n", e.from, e.to, strings.Join(e.names, " "))
	}
}
