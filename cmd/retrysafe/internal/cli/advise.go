package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/version"
)

// adviser is a separate program: its parsers of three dialects are as large as the rest of this
// program.
const adviser = "retrysafe-advise"

func adviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "advise [SQL]",
		Short: "Report what happens if an SQL statement runs twice, and which guard it needs",
		Long: "advise runs the program retrysafe-advise with the same arguments, and exits with its code. It looks for the program\n" +
			"beside this one and then in PATH. If there is none, it prints how to install it, and exits with 1.",
		DisableFlagParsing: true, // --help also goes to the other program
		RunE: func(c *cobra.Command, args []string) error {
			path := adviserPath()
			if path == "" {
				return fmt.Errorf("advise is a program of its own: go install github.com/retrysafe/retrysafe/cmd/%s@%s", adviser, installVersion(buildVersion()))
			}
			p := exec.CommandContext(c.Context(), path, args...) //nolint:gosec // the user's own arguments, to our own program
			p.Stdin, p.Stdout, p.Stderr = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
			p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
			p.WaitDelay = 5 * time.Second
			err := p.Run()
			if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
				return exitCode(ended.ExitCode()) // it has printed why
			}
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"--dialect", "--schema", "--file", "--json"}, cobra.ShellCompDirectiveDefault
		},
	}
}

// adviserPath returns the path of the program, or an empty string. It does not search the current
// directory.
func adviserPath() string {
	name := adviser
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		for _, at := range []string{self, resolveLinks(self)} {
			if path, err := exec.LookPath(filepath.Join(filepath.Dir(at), name)); err == nil {
				return path
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

func resolveLinks(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// installVersion returns the version to install (after @) of a program that fits this one.
func installVersion(v version.Info) string {
	if v.Released() {
		return v.Version
	}
	return "latest"
}

// exitCode ends the command with an exit code and no message: the command has printed it.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
