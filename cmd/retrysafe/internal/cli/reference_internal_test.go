package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/retrysafe/retrysafe/internal/anchor"
	"github.com/retrysafe/retrysafe/internal/assert"
)

const toChinese = "[中文](cli.zh-CN.md)\n\n"

const referenceHead = `# Command line

` + toChinese + `Every command of ` + "`retrysafe`" + `, with its flags. ` + "`retrysafe COMMAND --help`" + ` prints the same. In a
clone, write ` + "`go run ./cmd/retrysafe`" + ` instead of ` + "`retrysafe`" + `. [install.md](install.md) says how
to install it.

Exit codes: 0 success, 1 the work failed, 2 wrong usage, 3 ` + "`advise`" + ` found a statement that needs a
guard. ` + "`RETRYSAFE_STORE`" + ` sets ` + "`--store`" + ` of every command but ` + "`demo`" + ` and
` + "`bench store`" + `.

With ` + "`LANG=zh_CN.UTF-8`" + ` the help is in Chinese. ` + "`LC_ALL`" + ` and ` + "`LC_MESSAGES`" + ` take precedence. Errors,
tables, JSON and logs are always in English: people search for them, and programs parse them.

<!-- This page is made from the commands: UPDATE=1 go test -run TestReference ./internal/cli in cmd/retrysafe. -->
`

const referenceHeadChinese = `# 命令行

[English](cli.md)

` + "`retrysafe`" + ` 的每个命令和它的命令行选项。` + "`retrysafe COMMAND --help`" + ` 显示同样的内容。在克隆的仓库里，用 ` + "`go run ./cmd/retrysafe`" + ` 代替 ` + "`retrysafe`" + `。安装方法见 [install.md](install.zh-CN.md)。

退出码：0 成功，1 执行失败，2 用法有误，3 ` + "`advise`" + ` 发现了需要 guard 的语句。` + "`RETRYSAFE_STORE`" + ` 设置每个命令的 ` + "`--store`" + `，` + "`demo`" + ` 和 ` + "`bench store`" + ` 除外。

` + "`LANG=zh_CN.UTF-8`" + ` 时，帮助是中文的；` + "`LC_ALL`" + ` 和 ` + "`LC_MESSAGES`" + ` 优先。错误、表格、JSON 和日志总是英文，因为人会搜索它们，程序会解析它们。

<!-- This page is made from the commands: UPDATE=1 go test -run TestReference ./internal/cli in cmd/retrysafe. -->
`

// reference makes the page of one language.
type reference struct {
	page        strings.Builder
	stop, colon string
	flags, also string
	paragraph   func(first, text, rest string) string // puts a text into lines
}

// TestReference: docs/cli.md and its twin are what the commands say about themselves.
func TestReference(t *testing.T) {
	t.Parallel()
	english := reference{stop: ".", colon: ": ", flags: "flag | default | meaning", also: "Also the flags of [%s](#%s).", paragraph: wrapText}
	english.page.WriteString(referenceHead)
	english.writeCommand(rootCommand())
	upToDate(t, "cli.md", english.page.String())

	chinese := reference{stop: "。", colon: "：", flags: "命令行选项 | 默认值 | 含义", also: "还有 [%s](#%s) 的命令行选项。", paragraph: joinLines}
	fmt.Fprintf(&chinese.page, "<!-- translated from cli.md %s -->\n%s", pageDigest(english.page.String()), referenceHeadChinese)
	root := rootCommand()
	speakChinese(root)
	chinese.writeCommand(root)
	upToDate(t, "cli.zh-CN.md", chinese.page.String())
}

func upToDate(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", "docs", name)
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o600), "write")
	}
	have, err := os.ReadFile(path)
	assert.NoError(t, err, "read")
	assert.Equal(t, string(have), text, "docs/%s; UPDATE=1 writes it", name)
}

// pageDigest is what scripts/translations wants in the first line of the twin.
func pageDigest(page string) string {
	sum := sha256.Sum256([]byte(strings.Replace(page, toChinese, "", 1)))
	return hex.EncodeToString(sum[:6])
}

// writeCommand writes the section of c and those of its subcommands.
func (r *reference) writeCommand(c *cobra.Command) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	if c.HasParent() {
		fmt.Fprintf(&r.page, "\n## %s\n\n%s%s\n\n", c.CommandPath(), strings.ReplaceAll(c.Short, "|", `\|`), r.stop)
		fmt.Fprintf(&r.page, "    %s\n", strings.TrimSuffix(c.UseLine(), " [flags]"))
		for paragraph := range strings.SplitSeq(c.Long, "\n\n") {
			if paragraph != "" {
				r.page.WriteString("\n" + r.shapeParagraph(paragraph))
			}
		}
		r.flagTable(c.LocalFlags())
		if c.HasInheritedFlags() && c.Runnable() {
			fmt.Fprintf(&r.page, "\n"+r.also+"\n", c.Parent().CommandPath(), anchor.Of(c.Parent().CommandPath()))
		}
	}
	for _, below := range c.Commands() {
		r.writeCommand(below)
	}
}

// column is a line of a paragraph with two columns: a name and what it means.
var column = regexp.MustCompile(`^( *)(\S.*?)   *(\S.*)$`)

// shapeParagraph returns a paragraph of a help text: one with columns as a list, an example as it
// is, and any other as text.
func (r *reference) shapeParagraph(paragraph string) string {
	m := column.FindStringSubmatch(strings.Split(paragraph, "\n")[0])
	switch {
	case m == nil && strings.HasPrefix(paragraph, " "):
		return "```\n" + paragraph + "\n```\n"
	case m == nil:
		return r.paragraph("", paragraph, "")
	}
	var list strings.Builder
	items := regexp.MustCompile(`\n`+m[1]+`(\S)`).ReplaceAllString(paragraph, "\x00$1")
	for item := range strings.SplitSeq(items, "\x00") {
		name, meaning, _ := strings.Cut(strings.TrimSpace(item), "  ")
		list.WriteString(r.paragraph("- `"+name+"`"+r.colon, meaning, "  "))
	}
	return list.String()
}

// wrapText puts text into lines of at most 100 columns. The first begins with first, the others
// with rest.
func wrapText(first, text, rest string) string {
	var b strings.Builder
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > 100 {
			b.WriteString(line + "\n")
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return b.String() + line + "\n"
}

// joinLines puts text into one line. The end of a line is no space between two Chinese characters,
// nor beside punctuation.
func joinLines(first, text, _ string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		before, _ := utf8.DecodeLastRuneInString(first)
		after, _ := utf8.DecodeRuneInString(line)
		bothChinese := unicode.Is(unicode.Han, before) && unicode.Is(unicode.Han, after)
		if first != "" && !needsNoSpace(before) && !needsNoSpace(after) && !bothChinese {
			first += " "
		}
		first += line
	}
	return first + "\n"
}

// needsNoSpace reports whether a character has no space beside it.
func needsNoSpace(r rune) bool { return r == ' ' || strings.ContainsRune("，。、；：（）", r) }

func (r *reference) flagTable(flags *pflag.FlagSet) {
	empty := true
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		if empty {
			r.page.WriteString("\n| " + r.flags + " |\n|---|---|---|\n")
			empty = false
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		standard := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" && f.Name != "by" {
			standard = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&r.page, "| %s | %s | %s |\n", name, standard, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
}
