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
var untranslated = map[string]string{
	"CHANGELOG.md": "a record in the words of each change",
}

// twinPath returns the path of the Chinese page of a page.
func twinPath(page string) string { return strings.TrimSuffix(page, ".md") + suffix }

// listPages returns all pages below root that must have a twin.
func listPages(root string) (pages []string, err error) {
	all, err := source.Pages(root)
	for _, path := range all {
		rel, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return nil, relErr
		}
		if untranslated[filepath.ToSlash(rel)] == "" {
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

// pageDigest returns what stands in the first line of a twin. The link to the other language and
// the tables that a machine measured do not count: a program writes these into both pages.
func pageDigest(text string) string {
	text = measured.ReplaceAllString(languages.ReplaceAllString(text, ""), "")
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func stampLine(page, text string) string {
	return fmt.Sprintf("<!-- translated from %s %s -->\n", filepath.Base(page), pageDigest(text))
}

// stampTwin writes the digest of a page into its twin, and replaces the anchors of English
// headings.
func stampTwin(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	other, err := os.ReadFile(twinPath(page))
	if err != nil {
		return err
	}
	rest, _ := mendAnchors(twinPath(page), header.ReplaceAllString(string(other), ""), readPage)
	return os.WriteFile(twinPath(page), []byte(stampLine(page, string(text))+rest), 0o644)
}

// checkPage returns in what a page differs from its twin.
func checkPage(page string) (found []string, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	found = deadLinks(page)
	other, err := os.ReadFile(twinPath(page))
	if os.IsNotExist(err) {
		return append(found, page+": there is no "+twinPath(page)), nil
	} else if err != nil {
		return nil, err
	}
	for _, f := range comparePages(page, string(text), string(other), fileExists) {
		found = append(found, twinPath(page)+": "+f)
	}
	return found, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
