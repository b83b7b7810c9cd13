package cli

import (
	"bytes"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestLocale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		all, messages, lang string
		want                bool
	}{
		{"", "", "", false},
		{"", "", "zh_CN.UTF-8", true},
		{"", "", "zh_CN.utf8", true},
		{"", "", "zh_CN", true},
		{"", "", "zh", true},
		{"", "", "zh_SG.UTF-8@x", true},
		{"", "", "zh_CN.GB18030", false}, // another encoding
		{"", "", "zh_TW.UTF-8", false},   // traditional Chinese
		{"", "", "zhx", false},
		{"", "", "en_US.UTF-8", false},
		{"", "zh_CN.UTF-8", "en_US.UTF-8", true},
		{"", "C", "zh_CN.UTF-8", false},
		{"C.UTF-8", "zh_CN.UTF-8", "zh_CN.UTF-8", false},
		{"zh_CN.UTF-8", "C", "C", true},
	} {
		env := map[string]string{"LC_ALL": c.all, "LC_MESSAGES": c.messages, "LANG": c.lang}
		assert.Equal(t, isChinese(func(name string) string { return env[name] }), c.want, "%v", env)
	}
}

// exact are the parts of a text that have no language: names in backquotes, flags, addresses, names
// in capitals, numbers.
var exact = regexp.MustCompile("`[^`]+`|--[a-z][a-z-]*|\\b[a-z+]+:[/A-Z][A-Za-z0-9./:]*[A-Za-z0-9]|memory:|\\b[A-Z][A-Z0-9_/-]{2,}\\b|[0-9]+")

// TestEveryTextIsTranslated: a changed text needs a changed translation, since its translation is
// found by the text.
func TestEveryTextIsTranslated(t *testing.T) {
	t.Parallel()
	root := rootCommand()
	addCobra(root)
	unused := map[string]bool{}
	for _, catalogue := range []map[string]string{chineseShort, chineseLong, chineseFlags, chineseCobra} {
		for english := range catalogue {
			assert.True(t, !unused[english], "two translations of %q", english)
			unused[english] = true
		}
	}
	for _, text := range helpTexts(root) {
		for p := range strings.SplitSeq(*text, "\n\n") {
			if isCode(p) {
				continue
			}
			key, _ := helpKey(p)
			delete(unused, key)
			chinese := inChinese(p)
			assert.True(t, hasHan(chinese), "no translation of %q", p)
			for _, part := range exact.FindAllString(p, -1) {
				assert.True(t, strings.Contains(chinese, part), "%q is not in %q", part, chinese)
			}
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(unused)), nil, "translations of no text")
	eachFlag(root, func(f *pflag.Flag) {
		for _, value := range flagValues[f.Name] {
			assert.Equal(t, strings.Contains(inChinese(f.Usage), value), strings.Contains(f.Usage, value), "--%s: %q", f.Name, value)
		}
	})
}

// isCode reports whether a paragraph has no language: a command, or the name of a system.
func isCode(paragraph string) bool {
	return regexp.MustCompile(`^(?:\t|  retrysafe |#### )`).MatchString(paragraph)
}

func hasHan(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

func eachFlag(c *cobra.Command, do func(*pflag.Flag)) {
	c.LocalFlags().VisitAll(do)
	for _, below := range c.Commands() {
		eachFlag(below, do)
	}
}

// TestWordsOfCobra: all words that cobra prints around the texts are translated.
func TestWordsOfCobra(t *testing.T) {
	t.Parallel()
	template := rootCommand().UsageTemplate()
	for english := range chineseUsage {
		if english != "(default " { // is of pflag
			assert.True(t, strings.Contains(template, english), "cobra does not print %q", english)
		}
	}
	rest := regexp.MustCompile(`\{\{.*?\}\}`).ReplaceAllString(usageWords().Replace(template), "")
	rest = strings.NewReplacer("[command]", "", "--help", "").Replace(rest)
	assert.Equal(t, regexp.MustCompile(`[A-Za-z]+`).FindAllString(rest, -1), nil, "words without a translation")
}

// TestHelpSpeaksChinese runs the commands: their help depends on the locale, their errors do not.
func TestHelpSpeaksChinese(t *testing.T) {
	t.Setenv("LC_ALL", "")
	t.Setenv("LC_MESSAGES", "")
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	run := func(lang string, args ...string) (out, errOut string, code int) {
		t.Setenv("LANG", lang)
		var o, e bytes.Buffer
		code = Main(Drivers{}, args, &o, &e)
		return o.String(), e.String(), code
	}
	root := rootCommand()
	addCobra(root)
	for _, path := range commandPaths(root) {
		args := append([]string{"help"}, path...)
		english, _, code := run("C", args...)
		assert.Equal(t, code, 0, "%v", args)
		chinese, errOut, code := run("zh_CN.UTF-8", args...)
		assert.Equal(t, code, 0, "%v", args)
		assert.Equal(t, errOut, "", "%v: stderr", args)
		assert.True(t, !hasHan(english), "%v in the locale C: %s", args, english)
		for line := range strings.Lines(english) {
			if strings.TrimSpace(line) != "" && !isCode(line) {
				assert.True(t, !strings.Contains(chinese, "\n"+line), "%v is not translated: %q", args, line)
			}
		}
		assert.Equal(t, flagNames(chinese), flagNames(english), "%v: flags", args)
		assert.True(t, !strings.Contains(chinese, "(default "), "%v: defaults of pflag", args)
	}
	for _, args := range [][]string{{"keys", "--nope"}, {"nope"}, {"keys", "show"}, {"keys", "list", "--store", "nope:"}, {"version"}, {"--version"}, {"completion", "bash"}} {
		out, errOut, code := run("C", args...)
		gotOut, gotErr, gotCode := run("zh_CN.UTF-8", args...)
		assert.Equal(t, gotOut, out, "%v: stdout", args)
		assert.Equal(t, gotErr, errOut, "%v: stderr", args)
		assert.Equal(t, gotCode, code, "%v: exit code", args)
	}
}

// commandPaths returns the arguments that name each command.
func commandPaths(c *cobra.Command) (all [][]string) {
	all = append(all, strings.Fields(c.CommandPath())[1:])
	for _, below := range c.Commands() {
		all = append(all, commandPaths(below)...)
	}
	return all
}

var flagLine = regexp.MustCompile(`(?m)^ +(?:-\w, )?--[a-z-]+( \w+)?`)

func flagNames(help string) []string { return flagLine.FindAllString(help, -1) }
