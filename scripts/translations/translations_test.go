package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

const english = "# Locks\n\n[中文](locks.zh-CN.md)\n\nA `Lock` is [held](ids.md#numbers) once.\n\n" +
	"```go\nx := 1\n```\n\n```mermaid\nparticipant A as shop\nA->>B: pays\n```\n\n    run it   # now\n\n| a | b |\n|---|---|\n\n- one\n\n10. two,\n    in two lines\n\n<!-- bench:x -->\n1\n<!-- /bench -->\n"

const chinese = "# 锁\n\n[English](locks.md)\n\n`Lock` 同时只有一个[持有者](ids.zh-CN.md#号)。\n\n" +
	"```go\nx := 1\n```\n\n```mermaid\nparticipant A as 商店\nA->>B: 付款\n```\n\n    run it   # 现在\n\n| 甲 | 乙 |\n|---|---|\n\n- 一\n\n10. 二\n\n<!-- bench:x -->\n1\n<!-- /bench -->\n"

func both(string) bool { return true }

func TestCompare(t *testing.T) {
	t.Parallel()
	twin := stampLine("docs/locks.md", english) + chinese
	assert.Equal(t, comparePages("docs/locks.md", english, twin, both), nil, "a page and its twin")
	for name, c := range map[string]struct{ old, new, want string }{
		"another version": {"A `Lock`", "The `Lock`", "another version of locks.md"},
		"a figure":        {"bench:x -->\n1", "bench:x -->\n2", "measured tables: 1, and the page has 1"},
		"code":            {"x := 1", "x := 2", "code: 2, and the page has 2"},
		"a picture":       {"A->>B", "B->>A", "code: 2, and the page has 2"},
		"a heading":       {"# Locks", "## Locks", "headings: 1, and the page has 1"},
		"a command":       {"run it", "run that", "commands: 1, and the page has 1"},
		"a row":           {"|---|---|", "|---|---|\n| c | d |", "rows of tables: 2, and the page has 3"},
		"an item":         {"- one", "- one\n- two", "items of lists: 2, and the page has 3"},
		"backquotes":      {"`Lock`", "`Locker`", "words in backquotes: 1, and the page has 1"},
		"a link":          {"ids.md", "outbox.md", "links: 1, and the page has 1"},
	} {
		changed := strings.Replace(english, c.old, c.new, 1)
		assert.True(t, changed != english, "%s: %q is in the page", name, c.old)
		found := comparePages("docs/locks.md", changed, twin, both)
		assert.Contains(t, strings.Join(found, "\n"), c.want, "%s", name)
	}
	found := comparePages("docs/locks.md", english, chinese, both)
	assert.Contains(t, strings.Join(found, "\n"), "the first line is not <!-- translated from locks.md ", "no digest")
	alone := func(string) bool { return false }
	found = comparePages("docs/locks.md", english, twin, alone)
	assert.Contains(t, strings.Join(found, "\n"), "links: ", "a link to a twin that does not exist")
}

// TestEmphasis: strong text that Markdown would not show as such is found.
func TestEmphasis(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]int{
		"**只有一次**。再来": 0, "**只有一次。** 再来": 0, "（**一次**）": 0, "**一次**，**两次**": 0, "**`**`** 一次": 0,
		"**只有一次。**再来": 1, "再来**（一次）**。": 1, "再来**（一次）**吧": 2, "再来** 一次**": 1, "在 ** 之后**一次**": 0,
	} {
		assert.Equal(t, len(brokenEmphasis(text)), wrong, "places of %q", text)
	}
}

func TestComparePictures(t *testing.T) {
	t.Parallel()
	page := english + "\n![a lock](lock.png)\n"
	for picture, fits := range map[string]bool{"lock.png": true, "lock.zh-CN.png": true, "key.zh-CN.png": false, "lock.zh-CN.svg": false} {
		twin := stampLine("docs/locks.md", page) + chinese + "\n![锁](" + picture + ")\n"
		assert.Equal(t, len(comparePages("docs/locks.md", page, twin, both)) == 0, fits, "%s for lock.png", picture)
	}
	twin := stampLine("docs/locks.md", page) + chinese + "\n![锁](lock.zh-CN.png)\n"
	noPicture := func(path string) bool { return path != "docs/lock.zh-CN.png" }
	found := comparePages("docs/locks.md", page, twin, noPicture)
	assert.Contains(t, strings.Join(found, "\n"), `missing here: ["lock.png"]; only here: ["lock.zh-CN.png"]`, "a picture that does not exist")
}

func TestStamp(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "locks.md")
	assert.NoError(t, os.WriteFile(page, []byte(strings.ReplaceAll(english, "ids.md", "https://example.com")), 0o600), "write")
	assert.NoError(t, os.WriteFile(twinPath(page), []byte(strings.ReplaceAll(chinese, "ids.zh-CN.md", "https://example.com")), 0o600), "write")
	for range 2 { // the second time it replaces its line
		assert.NoError(t, stampTwin(page), "stamp")
		found, err := checkPage(page)
		assert.NoError(t, err, "check")
		assert.Equal(t, found, nil, "after the stamp")
	}
	assert.NoError(t, os.Remove(twinPath(page)), "remove")
	found, err := checkPage(page)
	assert.NoError(t, err, "check")
	assert.Equal(t, found, []string{page + ": there is no " + twinPath(page)}, "without a twin")
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"docs/a.md": "# A\n\n## One\n\n## Two\n", "docs/a.zh-CN.md": "# 甲\n\n## 一\n\n## 二\n",
		"docs/b.zh-CN.md": "# B\n\n[x](a.zh-CN.md#two) [y](a.zh-CN.md#二) [z](a.zh-CN.md#three) [w](#b) [v](https://example.com/#v)\n",
	}
	read := func(path string) (string, error) {
		if text, ok := pages[path]; ok {
			return text, nil
		}
		return "", os.ErrNotExist
	}
	mended, unknown := mendAnchors("docs/b.zh-CN.md", pages["docs/b.zh-CN.md"], read)
	assert.Contains(t, mended, "[x](a.zh-CN.md#二) [y](a.zh-CN.md#二) [z](a.zh-CN.md#three) [w](#b) [v](https://example.com/#v)", "anchors")
	assert.Equal(t, unknown, []string{"](a.zh-CN.md#three)"}, "links to no heading")
}

// TestPages: every page of this repository has a twin that was made from it as it is now.
func TestPages(t *testing.T) {
	t.Parallel()
	pages, err := listPages(filepath.Join("..", ".."))
	assert.NoError(t, err, "list")
	assert.True(t, len(pages) > 70, "pages: %d", len(pages))
	for _, page := range pages {
		found, err := checkPage(page)
		assert.NoError(t, err, "%s", page)
		assert.Equal(t, found, nil, "%s", page)
	}
}
