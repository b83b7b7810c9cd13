package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// exempt is the page that names the words; so do the files of this command.
const exempt = "how-we-write.md"

// tree looks at all files below roots. What it finds is file:line: and advice.
func tree(roots []string) (found []string, err error) {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := d.Name()
			if d.IsDir() {
				if path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
					return filepath.SkipDir
				}
				return nil
			}
			if name == exempt || strings.HasSuffix(filepath.ToSlash(filepath.Dir(path)), "scripts/words") {
				return nil
			}
			texts, err := textsOf(path)
			for _, t := range texts {
				for _, f := range look(t.text) {
					found = append(found, fmt.Sprintf("%s:%d: %s", path, t.line, f))
				}
			}
			return err
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// look is what is wrong with one line of text.
func look(text string) (found []string) {
	for _, e := range list {
		rest := text
		if e.but != nil {
			rest = e.but.ReplaceAllString(rest, "")
		}
		if m := e.pattern.FindString(rest); m != "" {
			found = append(found, fmt.Sprintf("%q: write %s", m, e.instead))
		}
	}
	return found
}

// text is one line of a comment or of a page.
type text struct {
	line int
	text string
}

func textsOf(path string) ([]text, error) {
	isGo := strings.HasSuffix(path, ".go")
	if !isGo && (!strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".zh-CN.md")) {
		return nil, nil
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if isGo {
		return goComments(src), nil
	}
	return pageText(src), nil
}

// goComments are the lines of a file's comments, but for code and for what examples print.
func goComments(src []byte) (out []text) {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(src))
	s.Init(file, src, nil, scanner.ScanComments)
	printed := false
	for {
		at, kind, lit := s.Scan()
		switch {
		case kind == token.EOF:
			return out
		case kind != token.COMMENT:
			printed = false
			continue
		}
		printed = printed || strings.Contains(lit, "Output:")
		for i, line := range strings.Split(lit, "\n") {
			if !printed && !strings.HasPrefix(line, "//\t") {
				out = append(out, text{file.Line(at) + i, prose(line)})
			}
		}
	}
}

// pageText are the lines of a page of Markdown, but for its blocks of code.
func pageText(src []byte) (out []text) {
	code := false
	for i, line := range strings.Split(string(src), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			continue
		}
		if !code {
			out = append(out, text{i + 1, prose(line)})
		}
	}
	return out
}

var codeSpan = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|<!--.*?-->|// snippet: .*")

// prose is a line without what it quotes.
func prose(line string) string { return codeSpan.ReplaceAllString(line, "“”") }
