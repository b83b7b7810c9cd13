// Package cli is the command line of retrysafe.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/demo"
)

// Main runs the command line of a program with these drivers, once, and returns the exit code: 0, 1
// if the work failed, 2 for a wrong call, 3 if advise has found something.
func Main(d Drivers, args []string, out, errOut io.Writer) int {
	drivers = d
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	log.SetOutput(quoteCutter{errOut})
	began := false // an error before the command runs is a wrong call
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		began = true
		return errors.Join(checkSecretEnds(c), setStoreFromEnvironment(c))
	}
	c := root
	done, err := writeManual(root, args)
	if !done {
		if isChinese(os.Getenv) {
			speakChinese(root)
		}
		c, err = root.ExecuteContextC(ctx)
	}
	var usage *usageError
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case !began, errors.As(err, &usage):
		fmt.Fprintf(errOut, "%s\nSee \"%s --help\".\n", prefixedText(err), c.CommandPath())
		return 2
	}
	fmt.Fprintln(errOut, prefixedText(err))
	return 1
}

// rootCommand returns the command with all its subcommands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "retrysafe",
		Short: "Make requests safe to repeat: each takes effect once, and every duplicate gets the first answer",
		Long: "retrysafe makes requests safe to repeat. A double click, a client's retry, a replayed request\n" +
			"takes effect once, and every duplicate gets the first answer.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	addVersion(root)
	show := demo.Command(openForDemo)
	ignoreEnvironment(show.Flags()) // it makes records, and kills its gateways
	root.AddCommand(gatewayCommand(), keysCommand(), resumeCommand(), benchCommand(), capacityCommand(), migrateCommand(), sealCommand(), secretCommand(), restoreCommand(), idsCommand(), dlqCommand(), outboxCommand(), consoleCommand(), checkCommand(), adviseCommand(), versionCommand(), show, demo.ShopCommand())
	setCompletions(root)
	return root
}

// addVersion adds the flag --version. That of cobra would link text/template, which keeps the
// linker from leaving out methods without a caller: the program would be half as large again.
func addVersion(root *cobra.Command) {
	version := root.Flags().BoolP("version", "v", false, "version for retrysafe")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if !*version {
			return c.Help()
		}
		fmt.Fprintf(c.OutOrStdout(), "retrysafe %s\n", buildVersion())
		return nil
	}
}

// onlySubcommands is the RunE of a command that does nothing by itself: it prints its help, or
// refuses a subcommand that it does not have.
func onlySubcommands(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())}
	}
	return c.Help()
}

// usageError is an error in the command's arguments or flags.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// prefixedText returns the text of an error with one "retrysafe: ". Errors of the library begin
// with it too, also inside of others.
func prefixedText(err error) string {
	text := strings.ReplaceAll("\n"+err.Error(), "\nretrysafe: ", "\n")
	return "retrysafe: " + strings.ReplaceAll(text[1:], ": retrysafe: ", ": ")
}
