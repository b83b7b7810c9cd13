package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
)

// checkFlags are the flags of check.
type checkFlags struct {
	request requestFlags
	oracle  oracleFlags
	about   apiFlags
	out     reportFlags

	options  check.Options
	insecure bool
	plan     bool
}

func checkCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check URL",
		Short: "Examine whether an HTTP API is safe to retry",
		Long: "check sends a request as clients, networks and crashes repeat it, and verifies the answers and how often the request\n" +
			"took effect. The API can be written in any language.\n\n" +
			"  retrysafe check http://localhost:8080/orders -H 'Authorization: Bearer …' -d '{\"amount\":500}' --count 'GET /orders | $.total'\n\n" +
			"Every check acts on the API, so only an API on this machine is examined unless --allow names its host. --plan shows what\n" +
			"would be sent. In the URL, the header fields and the body, {{unique}} is a text that is new for each operation and the\n" +
			"same in its duplicates.\n\n" +
			"Exit codes: 0 nothing is broken, 1 something is broken, 2 the API could not be examined, the examination was\n" +
			"interrupted, or no check could be decided.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				f.request.url = args[0]
			}
			return f.runChecks(c)
		},
	}
	f.request.addTo(c)
	f.oracle.addTo(c)
	f.about.addTo(c)
	f.out.addTo(c)
	flags := c.Flags()
	flags.StringSliceVar(&f.options.Allow, "allow", nil, "also examine this host, which is not on this machine")
	flags.StringSliceVar(&f.options.Only, "only", nil, "run only these checks")
	flags.StringSliceVar(&f.options.Skip, "skip", nil, "skip these checks")
	flags.IntVar(&f.options.MaxRequests, "max-requests", 650, "send at most this many requests")
	flags.Float64Var(&f.options.Rate, "rate", 100, "send at most this many requests a second, apart from the check that sends fifty at once")
	flags.DurationVar(&f.options.Patience, "patience", 30*time.Second, "longest wait for an effect, for the end of a request and for a restarted service")
	flags.DurationVar(&f.options.Settle, "settle", 150*time.Millisecond, "how long to look for one effect too many; longer where effects come late")
	flags.DurationVar(&f.options.Wait, "wait", time.Minute, "longest wait for an answer to expire")
	flags.BoolVar(&f.insecure, "insecure", false, "accept any certificate of an https API")
	flags.BoolVar(&f.plan, "plan", false, "show what would be sent, and send nothing")
	return c
}

func (f *checkFlags) runChecks(c *cobra.Command) error {
	target, closeTarget, err := f.openTarget(c)
	if err != nil {
		return &usageError{err}
	}
	defer closeTarget()
	if err := check.Validate(target, &f.options); err != nil {
		return &usageError{err}
	}
	if f.plan {
		return f.showPlan(c, &target)
	}
	if err := f.out.createFiles(c); err != nil {
		return &usageError{err}
	}
	defer f.out.removeUnused()
	progress := progressOf(c.ErrOrStderr())
	f.options.OnEvent = progress
	f.options.TLS = insecureTLS(f.insecure)
	found, err := check.Examine(c.Context(), target, &f.options)
	if err != nil {
		progress(check.Event{})
		if found != nil {
			// what was found until it was interrupted
			err = errors.Join(err, f.out.writeAll(c, found))
		}
		fmt.Fprintln(c.ErrOrStderr(), prefixedText(err))
		return exitCode(2)
	}
	if err := f.out.writeAll(c, found); err != nil {
		fmt.Fprintln(c.ErrOrStderr(), prefixedText(err))
		return exitCode(2)
	}
	if found.Count(check.Broken) > 0 {
		return exitCode(1)
	}
	if err := found.Undecided(); err != nil {
		fmt.Fprintln(c.ErrOrStderr(), prefixedText(err))
		return exitCode(2)
	}
	return nil
}

// openTarget makes the target of the flags.
func (f *checkFlags) openTarget(c *cobra.Command) (t check.Target, closeTarget func(), err error) {
	if t.Request, err = f.request.readRequest(c.InOrStdin(), c.Flags().Changed("request")); err != nil {
		return t, nil, err
	}
	if err := f.about.setTarget(&t); err != nil {
		return t, nil, err
	}
	closeTarget, err = f.oracle.openOracle(&t, c.ErrOrStderr(), f.plan)
	return t, closeTarget, err
}

// showPlan prints what would be sent.
func (f *checkFlags) showPlan(c *cobra.Command, t *check.Target) error {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "Each check sends this request, with keys in %s:\n\n  %s\n\n", keyHeader(t), t.Curl())
	most := 2
	for _, ch := range check.Checks() {
		if !f.options.Chosen(ch.ID) {
			continue
		}
		most += ch.Requests
		fmt.Fprintf(out, "%s (at most %d requests)\n", ch.ID, ch.Requests)
		for _, line := range ch.Sends {
			fmt.Fprintf(out, "  - %s\n", line)
		}
	}
	fmt.Fprintf(out, "\nBefore them the request is sent twice, to see that it takes effect. At most %d requests in all, "+
		"save those that are answered 429 and sent again. %d are allowed.\n", most, f.options.MaxRequests)
	return nil
}

func keyHeader(t *check.Target) string {
	if t.KeyHeader == "" {
		return "Idempotency-Key"
	}
	return t.KeyHeader
}

// runShell runs a line of the user in a shell. A process that the line starts and leaves running,
// such as a service, is not waited for: it writes to a file, where a pipe would be open until it
// ends.
func runShell(c *exec.Cmd) error {
	out, err := os.CreateTemp("", "retrysafe-check-*")
	if err != nil {
		return err
	}
	// the service keeps it open
	defer func() { _ = errors.Join(out.Close(), os.Remove(out.Name())) }()
	c.Stdout, c.Stderr = out, out
	if err := c.Run(); err != nil {
		const most = 2048
		text := make([]byte, most)
		n, _ := out.ReadAt(text, 0)
		return fmt.Errorf("%s: %w: %s", c.Args[len(c.Args)-1], err, strings.TrimSpace(string(text[:n])))
	}
	return nil
}

func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// progressOf shows on w how far an examination is.
func progressOf(w io.Writer) func(check.Event) {
	if isTerminal(w) {
		return report.TerminalProgress(w)
	}
	return report.Progress(w)
}
