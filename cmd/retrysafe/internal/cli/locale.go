package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// isChinese reports whether help is in Chinese: by the first of LC_ALL, LC_MESSAGES and LANG that
// is set. The texts are simplified Chinese in UTF-8.
func isChinese(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if value := getenv(name); value != "" {
			locale, _, _ := strings.Cut(value, "@")
			place, charset, _ := strings.Cut(locale, ".")
			charset = strings.ToLower(strings.ReplaceAll(charset, "-", ""))
			return (place == "zh" || place == "zh_CN" || place == "zh_SG") && (charset == "" || charset == "utf8")
		}
	}
	return false
}

// speakChinese translates the help of root and its subcommands. Errors, tables, JSON and logs stay
// English: people search for them, and programs parse them. The output of root must be set.
func speakChinese(root *cobra.Command) {
	addCobra(root)
	for _, text := range helpTexts(root) {
		*text = inChinese(*text)
	}
	words, usage := usageWords(), root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		defer c.SetOut(out)
		var text strings.Builder
		c.SetOut(&text)
		err := usage(c)
		fmt.Fprint(out, words.Replace(text.String()))
		return err
	})
}

func usageWords() *strings.Replacer {
	var pairs []string
	for english, chinese := range chineseUsage {
		pairs = append(pairs, english, chinese)
	}
	return strings.NewReplacer(pairs...)
}

// addCobra adds the commands and flags that cobra otherwise adds when root runs.
func addCobra(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	addHelpFlags(root)
}

func addHelpFlags(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	for _, below := range c.Commands() {
		addHelpFlags(below)
	}
}

// helpTexts returns the texts of c and its subcommands.
func helpTexts(c *cobra.Command) (all []*string) {
	for _, text := range []*string{&c.Short, &c.Long, &c.Example} {
		if *text != "" {
			all = append(all, text)
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { all = append(all, &f.Usage) })
	for _, below := range c.Commands() {
		all = append(all, helpTexts(below)...)
	}
	return all
}

// inChinese translates a text paragraph by paragraph. What has no translation stays as it is:
// examples of commands.
func inChinese(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		key, name := helpKey(p)
		for _, catalogue := range []map[string]string{chineseShort, chineseLong, chineseFlags, chineseCobra} {
			if chinese, ok := catalogue[key]; ok {
				paragraphs[i] = strings.ReplaceAll(chinese, forCommand, name)
			}
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// forCommand stands for the name of a command.
const forCommand = "COMMAND"

// helpKey returns what stands in a catalogue for a paragraph, and the name of a command in it.
func helpKey(paragraph string) (key, name string) {
	const helpFor = "help for "
	if name, ok := strings.CutPrefix(paragraph, helpFor); ok {
		return helpFor + forCommand, name
	}
	return strings.Trim(paragraph, "\n"), forCommand
}
