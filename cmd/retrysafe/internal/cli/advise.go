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

// adviser is a program of its own: its parsers of three dialects are as much as all the rest of
// this one.
const adviser = "retrysafe-advise"

func adviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "advise [SQL]",
		Short: "Say which SQL statements repeat harmlessly, and which guard the others need (runs retrysafe-advise)",
		Long: "advise runs retrysafe-advise, with the same arguments, and ends with its code. It looks for it beside this program, and then in PATH.\n" +
			"Without it, it says how to install it, and ends with 1.",
		DisableFlagParsing: true, // --help as well is the other program's
		RunE: func(c *cobra.Command, args []string) error {
			path := adviserPath()
			if path == "" {
				return fmt.Errorf("advise is a program of its own: go install github.com/retrysafe/retrysafe/cmd/%s@%s", adviser, installable(built()))
			}
			p := exec.CommandContext(c.Context(), path, args...) //nolint:gosec // the caller's own arguments, to a program of ours
			p.Stdin, p.Stdout, p.Stderr = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
			p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
			p.WaitDelay = 5 * time.Second
			err := p.Run()
			if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
				return exitCode(ended.ExitCode()) // it has said why
			}
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"--dialect", "--schema", "--file", "--json"}, cobra.ShellCompDirectiveDefault
		},
	}
}

// adviserPath is where the program is, or empty. In the directory where somebody stands it is not
// looked for.
func adviserPath() string {
	name := adviser
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		for _, at := range []string{self, linked(self)} {
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

func linked(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// installable is what stands behind @ for a program that fits this one.
func installable(v version.Info) string {
	if v.Released() {
		return v.Version
	}
	return "latest"
}

// exitCode ends the command with a code, and no words: they have been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
