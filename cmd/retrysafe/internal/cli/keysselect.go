package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/httpidem"
)

// addSelectionFlags adds the flags that narrow a search.
func (f *keysFlags) addSelectionFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant, as show --reveal prints it")
	f.addUserFlag(c)
	c.Flags().StringVar(&f.operation, "operation", "", `only this operation, for example "POST /orders"`)
}

func (f *keysFlags) addUserFlag(c *cobra.Command) {
	c.Flags().StringVar(&f.user, "user", "", "only this caller: NAME, basic:NAME, jwt:ISSUER|SUBJECT, header:VALUE, or a credential in a file: bearer:@FILE, credential:@FILE, cookie:@FILE, secret:@FILE, certificate:@FILE; @- is standard input")
}

// userHelp explains --user; it is a part of the help of the commands that have it.
const userHelp = "--user names a caller as people know it. The gateway makes its tenant of that in the same way, mostly a digest keyed by\n" +
	"RETRYSAFE_SECRET:\n\n" +
	"basic:ann            the user name of Basic authentication\n" +
	"jwt:ISSUER|SUBJECT   the claims iss and sub of a bearer token, verified or not\n" +
	"header:ann           the value of a header of tenant: header:NAME, or any tenant that is not a digest\n" +
	"bearer:@FILE         a bearer token; of a JWT, iss and sub count\n" +
	"credential:@FILE     a whole Authorization header\n" +
	"cookie:@FILE         the value of the cookie of tenant: {cookie: NAME}\n" +
	"secret:@FILE         the value of the header of tenant: {header_secret: NAME}\n" +
	"certificate:@FILE    the certificate of the client, in PEM\n" +
	"ann                  basic:ann or header:ann\n\n" +
	"A credential must not stand in the arguments of a process, which others can see: it is read from a file, or from\n" +
	"standard input with @-."

// maxCredential bounds what is read for --user.
const maxCredential = 64 << 10

// callerName returns the caller that --user names, or nil. Call it once: it may read standard
// input.
func (f *keysFlags) callerName(c *cobra.Command) (*httpidem.CallerName, error) {
	if f.user == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	if f.tenant != "" {
		return nil, &usageError{errors.New("--user and --tenant both name the caller; give one of them")}
	}
	kind, value, _ := strings.Cut(f.user, ":")
	path, isFile := strings.CutPrefix(value, "@")
	text := f.user
	if kind != "basic" && kind != "header" && kind != "jwt" && isFile {
		credential, err := readCredential(c, path)
		if err != nil {
			return nil, err
		}
		text = kind + ":" + credential
	}
	n, err := httpidem.ParseCallerName(text)
	switch {
	case err != nil:
		return nil, &usageError{fmt.Errorf("--user: %w", err)}
	case n.IsSecret() && !isFile:
		return nil, &usageError{fmt.Errorf("--user %s: a credential in the arguments can be seen by others; write it to a file and say %s:@FILE, or %s:@- for standard input", kind, kind, kind)}
	}
	return &n, nil
}

// readCredential reads a credential from a file, or from standard input if the path is "-".
func readCredential(c *cobra.Command, path string) (string, error) {
	in := c.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", &usageError{fmt.Errorf("--user: %w", err)}
		}
		defer file.Close() //nolint:errcheck // it is only read
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxCredential+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("--user: %w", err)
	case len(text) > maxCredential:
		return "", &usageError{fmt.Errorf("--user: the credential has more than %d bytes", maxCredential)}
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// selection is what the flags select.
func (f *keysFlags) selection(c *cobra.Command, d *admin.Records) (admin.Selection, error) {
	caller, err := f.callerName(c)
	if err != nil {
		return admin.Selection{}, err
	}
	return f.selectionOf(d, caller)
}

// selectionOf is selection for a caller that is known; nil: any.
func (f *keysFlags) selectionOf(d *admin.Records, caller *httpidem.CallerName) (sel admin.Selection, err error) {
	if sel.ListRequest, err = f.listRequest(); err != nil {
		return sel, err
	}
	if caller != nil {
		sel.Tenants = d.TenantsOf(*caller)
	}
	now := time.Now()
	if sel.Since, err = parseMoment(f.since, now); err != nil {
		return sel, &usageError{fmt.Errorf("--since %w", err)}
	}
	if sel.Until, err = parseMoment(f.until, now); err != nil {
		return sel, &usageError{fmt.Errorf("--until %w", err)}
	}
	return sel, nil
}

// momentForms are the forms of a time; without a zone it is that of the machine.
var momentForms = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

// parseMoment parses a time, or a duration before now. Empty is the zero time.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, form := range momentForms {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf(`%q is no time; write 2006-01-02, "2006-01-02 15:04", 2006-01-02T15:04:05Z or a time ago such as 90m`, text)
}

// reportProgress returns a function that reports the progress of a search on errOut, at most once a
// second.
func reportProgress(errOut io.Writer) func(read int) {
	told := time.Now()
	return func(read int) {
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(errOut, "… %d records\n", read)
		}
	}
}

// printCandidates prints the records that a name can mean, and returns an error that says how to
// choose one.
func printCandidates(c *cobra.Command, d *admin.Records, e *admin.AmbiguousError) error {
	w := tabwriter.NewWriter(c.ErrOrStderr(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HASH\tNAMESPACE\tLAYER\tOPERATION\tSTATE\tAGE")
	for i := range e.Records {
		l := lineOf(d, &e.Records[i])
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Hash, Printable(l.Namespace), Printable(l.Layer), Printable(l.Operation), l.State, time.Duration(l.AgeS)*time.Second)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	how := "several records have this key"
	if e.More {
		how = fmt.Sprintf("more than %d records have this key", len(e.Records))
	}
	return fmt.Errorf("%s; nothing was done. Name one by its hash, for example: %s %s. Or narrow the search with --user, --tenant, --operation, --namespace or --layer",
		how, c.CommandPath(), d.Hash(e.Records[0].Key))
}

// secretHint says that the digests of callers depend on the secret, if a caller was searched for.
func secretHint(sel *admin.Selection) string {
	if sel.Tenants == nil {
		return ""
	}
	return "; the caller is found only with the RETRYSAFE_SECRET of the gateway, and by the kind of name that its tenant has"
}

// answerSearch looks for records by their answers.
type answerSearch struct {
	query                   admin.AnswerQuery
	most                    int // answers that are looked at
	looked, sealed, without int
	stopped                 bool
}

func (a *answerSearch) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&a.query.Location, "answer-location", "", "only records whose stored answer has this Location or Content-Location, for example /payments/17; needs --reason")
	c.Flags().StringVar(&a.query.Text, "answer-text", "", "only records whose stored answer has this text, such as the id of a payment; needs --reason")
	c.Flags().IntVar(&a.most, "max-answers", 100_000, "with --answer-location or --answer-text: stop after so many answers")
}

// matches reports whether the answer of a listed record has what is searched for.
func (a *answerSearch) matches(c *cobra.Command, d *admin.Records, rec *retrysafe.Record) (bool, error) {
	if a.query.IsZero() {
		return true, nil
	}
	if a.looked >= a.most {
		a.stopped = true
		return false, nil
	}
	got, err := d.MatchAnswer(c.Context(), rec, a.query)
	switch got {
	case admin.AnswerMatches, admin.AnswerDiffers:
		a.looked++
	case admin.AnswerSealed:
		a.sealed++
	default:
		a.without++
	}
	return got == admin.AnswerMatches, err
}

// report says what was searched, and returns an error if that was not all.
func (a *answerSearch) report(out io.Writer) error {
	if a.query.IsZero() {
		return nil
	}
	fmt.Fprintf(out, "looked at %d answers; %d records have none\n", a.looked, a.without)
	if a.sealed > 0 {
		fmt.Fprintf(out, "%d answers are sealed and were not searched; --seal-keys or RETRYSAFE_SEAL_KEYS opens them\n", a.sealed)
	}
	if a.stopped {
		return fmt.Errorf("stopped after %d answers, and there are more records; narrow the search with --user, --operation, --since or --until, or raise --max-answers", a.looked)
	}
	return nil
}
