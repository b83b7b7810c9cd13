// Package source finds the files of the tree that people read, and the comments and raw strings of
// Go files.
package source

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Walk calls f with each Go file and each English page of Markdown below roots. It leaves out
// testdata, node_modules, and directories whose name begins with a dot, unless they are a root.
func Walk(roots []string, f func(path string, src []byte) error) error {
	for _, root := range roots {
		err := eachFile(root, func(path string) error {
			if !IsGo(path) && !isPage(path) {
				return nil
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return f(path, src)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Pages returns the English pages of Markdown below root, sorted. It leaves out what Walk does.
func Pages(root string) (paths []string, err error) {
	err = eachFile(root, func(path string) error {
		if isPage(path) {
			paths = append(paths, path)
		}
		return nil
	})
	slices.Sort(paths)
	return paths, err
}

// eachFile calls f with each file below root.
func eachFile(root string, f func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case !d.IsDir():
			return f(path)
		case path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules"):
			return filepath.SkipDir
		}
		return nil
	})
}

// IsGo reports whether a path is that of a Go file.
func IsGo(path string) bool { return strings.HasSuffix(path, ".go") }

func isPage(path string) bool {
	return strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".zh-CN.md")
}

// Comment is a comment of a Go file.
type Comment struct {
	Line   int    // counted from 1
	Column int    // in bytes, counted from 0
	Text   string // with its slashes; a block has several lines
	// Next reports whether the token before is a comment, too.
	Next bool
}

// Scan returns the comments of a Go file, and for each line whether it begins inside a raw string.
func Scan(src []byte) (comments []Comment, raw []bool) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, nil, scanner.ScanComments)
	raw = make([]bool, strings.Count(string(src), "\n")+1)
	next := false
	for {
		at, kind, lit := s.Scan()
		if kind == token.EOF {
			return comments, raw
		}
		line := file.Line(at)
		switch {
		case kind == token.COMMENT:
			comments = append(comments, Comment{line, file.Offset(at) - file.Offset(file.LineStart(line)), lit, next})
		case kind == token.STRING && strings.HasPrefix(lit, "`"):
			for i := range strings.Count(lit, "\n") {
				raw[line+i] = true
			}
		}
		next = kind == token.COMMENT
	}
}
