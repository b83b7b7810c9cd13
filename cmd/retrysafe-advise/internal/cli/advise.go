// Package cli is the command line of retrysafe-advise.
package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/advise"
	"github.com/retrysafe/retrysafe/version"
)

// Main runs the command line and returns the exit code: 0 if all statements are harmless or
// guarded, 3 if one needs a guard or is unknown, 1 if the text could not be read, 2 for a wrong
// call.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	c := adviseCommand()
	c.SetArgs(args)
	c.SetIn(in)
	c.SetOut(out)
	c.SetErr(errOut)
	began := false // an error before the command runs is a wrong call
	c.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	done, err := writeManual(c, args)
	if !done {
		c, err = c.ExecuteC()
	}
	var usage *usageError
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case !began, errors.As(err, &usage):
		fmt.Fprintf(errOut, "retrysafe-advise: %v\nSee \"%s --help\".\n", err, c.CommandPath())
		return 2
	}
	fmt.Fprintf(errOut, "retrysafe-advise: %v\n", err)
	return 1
}

// mostSQL is slightly more than package advise accepts, so that the package can report text that is
// too long.
const mostSQL = 1 << 20

func adviseCommand() *cobra.Command {
	var file, schema, dialect string
	var asJSON bool
	c := &cobra.Command{
		Use: "retrysafe-advise [SQL]", Version: version.Read("github.com/retrysafe/retrysafe/cmd/retrysafe-advise").String(), SilenceErrors: true, SilenceUsage: true, Args: cobra.MaximumNArgs(1),
		Short: "Report what happens if an SQL statement runs twice, and which guard it needs",
		Long: "retrysafe-advise reads SQL statements and reports what happens if each runs twice: harmless, guarded, needs a guard, or\n" +
			"unknown, and why. It takes unique indexes from CREATE TABLE, CREATE UNIQUE INDEX and ALTER TABLE in the same text or in\n" +
			"--schema. It connects to nothing.\n\n" +
			"Exit codes: 0 all are harmless or guarded, 1 the text could not be read, 2 wrong usage, 3 a statement needs a guard or\n" +
			"is unknown.",
		Example: "  retrysafe-advise 'UPDATE accounts SET amount = amount - 5 WHERE id = ?'\n" +
			"  retrysafe-advise --dialect postgres --schema schema.sql -f queries.sql",
		RunE: func(c *cobra.Command, args []string) error {
			text, err := sqlOf(c.InOrStdin(), args, file)
			if err != nil {
				return err
			}
			var tables string
			if schema != "" {
				if tables, err = readSQL(c.InOrStdin(), schema); err != nil {
					return err
				}
			}
			switch advise.Dialect(dialect) {
			case advise.Any, advise.MySQL, advise.PostgreSQL, advise.SQLite:
			default:
				return &usageError{fmt.Errorf("--dialect: %q is none; use mysql, postgres or sqlite, or leave it out to try all", dialect)}
			}
			report, err := advise.Advise(text, tables, advise.Dialect(dialect))
			if err != nil {
				return err
			}
			if err := printAdvice(c.OutOrStdout(), report, asJSON); err != nil {
				return err
			}
			if worst := report.Worst(); worst == advise.NeedsGuard || worst == advise.Unknown {
				return exitCode(3)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "read the SQL from a file; - is the standard input")
	c.Flags().StringVar(&schema, "schema", "", "file with CREATE TABLE statements, which are read but not reported")
	c.Flags().StringVar(&dialect, "dialect", "", "mysql, postgres or sqlite (default: the first that can read it, of sqlite, mysql, postgres)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.SetVersionTemplate("retrysafe-advise {{.Version}}\n")
	_ = c.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions([]string{"mysql", "postgres", "sqlite"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("file", sqlFiles)
	_ = c.RegisterFlagCompletionFunc("schema", sqlFiles)
	return c
}

func printAdvice(w io.Writer, r *advise.Report, asJSON bool) error {
	if !asJSON {
		_, err := io.WriteString(w, r.Text())
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func sqlOf(in io.Reader, args []string, file string) (string, error) {
	switch {
	case len(args) == 1 && file != "":
		return "", &usageError{errors.New("give the SQL, or --file, not both")}
	case file != "":
		return readSQL(in, file)
	case len(args) == 0:
		return "", &usageError{errors.New("give the SQL in quotes, or --file (- is the standard input)")}
	case args[0] == "-":
		return readSQL(in, "-")
	}
	return args[0], nil
}

func readSQL(in io.Reader, path string) (string, error) {
	if path != "-" {
		f, err := os.Open(path) //nolint:gosec // the user names the file
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, mostSQL))
	return string(text), err
}

// sqlFiles completes the names of files that are likely SQL.
func sqlFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"sql", "ddl", "txt"}, cobra.ShellCompDirectiveFilterFileExt
}

// usageError is an error in the command's arguments or flags.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitCode ends the command with an exit code and no message: the command has printed it.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
