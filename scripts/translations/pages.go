package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/retrysafe/retrysafe/scripts/internal/source"
)

const suffix = ".zh-CN.md"

// without are pages that have no twin, and why.
var without = map[string]string{
	"CHANGELOG.md":  "a record in the words of each change",
	"docs/terms.md": "one page in both languages",
}

// twin returns the path of the Chinese page of a page.
func twin(page string) string { return strings.TrimSuffix(page, ".md") + suffix }

// list returns all pages below root that must have a twin.
func list(root string) (pages []string, err error) {
	all, err := source.Pages(root)
	for _, path := range all {
		rel, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return nil, relErr
		}
		if without[filepath.ToSlash(rel)] == "" {
			pages = append(pages, path)
		}
	}
	return pages, err
}

var (
	languages = regexp.MustCompile(`(?m)^\[(?:中文|English)\]\([^)]*\)\n\n?`)
	measured  = regexp.MustCompile(`(?s)<!-- bench:.*?<!-- /bench -->`)
	header    = regexp.MustCompile(`^<!-- translated from (\S+) ([0-9a-f]{12}) -->\n`)
)

// digest returns what stands in the first line of a twin. The link to the other language and the
// tables that a machine measured do not count: a program writes these into both pages.
func digest(text string) string {
	text = measured.ReplaceAllString(languages.ReplaceAllString(text, ""), "")
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func line(page, text string) string {
	return fmt.Sprintf("<!-- translated from %s %s -->\n", filepath.Base(page), digest(text))
}

// stamp writes the digest of a page into its twin, and replaces the anchors of English headings.
func stamp(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	other, err := os.ReadFile(twin(page))
	if err != nil {
		return err
	}
	rest, _ := anchors(twin(page), header.ReplaceAllString(string(other), ""), read)
	return os.WriteFile(twin(page), []byte(line(page, string(text))+rest), 0o644)
}

// check returns in what a page differs from its twin.
func check(page string) (found []string, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	found = dead(page)
	other, err := os.ReadFile(twin(page))
	if os.IsNotExist(err) {
		return append(found, page+": there is no "+twin(page)), nil
	} else if err != nil {
		return nil, err
	}
	for _, f := range compare(page, string(text), string(other), exists) {
		found = append(found, twin(page)+": "+f)
	}
	return found, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
