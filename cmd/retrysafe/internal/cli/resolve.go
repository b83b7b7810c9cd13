package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// resolveFlags say what the operator has found out.
type resolveFlags struct {
	fence                       uint64
	force                       bool
	outcome                     string
	status                      int
	contentType, body, location string
	failure                     string
	operator                    operator
}

func (r *resolveFlags) addCommonFlags(c *cobra.Command) {
	c.Flags().Uint64Var(&r.fence, "fence", 0, "fence of the record, from keys show; if the record has changed since, nothing happens")
	c.Flags().BoolVar(&r.force, "force", false, "also if an attempt has a live lease; that attempt may still act")
	r.operator.addFlags(c, "how this is known, for the audit log; required")
}

func releaseCommand(f *keysFlags) *cobra.Command {
	r := resolveFlags{outcome: "not-done"}
	c := &cobra.Command{
		Use: "release HASH|KEY --fence N --reason TEXT", Args: cobra.ExactArgs(1), Short: "Let the next request with a key run",
		Long: "release lets the next request with the key run. Use it only if the first request had no effect and its process is\n" +
			"dead: a process that is only slow can still act, unless the resource checks the fence.",
		RunE: func(c *cobra.Command, args []string) error { return f.resolveRecord(c, args[0], &r) },
	}
	f.addSelectionFlags(c)
	r.addCommonFlags(c)
	return c
}

func resolveCommand(f *keysFlags) *cobra.Command {
	var r resolveFlags
	c := &cobra.Command{
		Use: "resolve HASH|KEY --fence N --outcome done|failed|not-done --reason TEXT", Args: cobra.ExactArgs(1), Short: "Resolve a request in doubt",
		Long: "resolve stores the outcome that you found.\n\n" +
			"done      duplicates get the answer of --status, --content-type, --location and --body. Without --status they\n" +
			"          get 409 answer-not-kept: the request was done, and its answer is not known. A status that means that\n" +
			"          nothing was done, such as 401, is refused, and so is a body of a 204 or 304.\n" +
			"failed    duplicates get 409 resolved-failed with the text of --failure.\n" +
			"not-done  the next request with the key runs, as after \"keys release\".",
		RunE: func(c *cobra.Command, args []string) error { return f.resolveRecord(c, args[0], &r) },
	}
	f.addSelectionFlags(c)
	r.addCommonFlags(c)
	c.Flags().StringVar(&r.outcome, "outcome", "", "the outcome: done, failed or not-done")
	c.Flags().IntVar(&r.status, "status", 0, "with done: status of the answer")
	c.Flags().StringVar(&r.contentType, "content-type", "application/json", "with done: Content-Type of the answer")
	c.Flags().StringVar(&r.location, "location", "", "with done: Location of the answer")
	c.Flags().StringVar(&r.body, "body", "", "with done: file with the body of the answer")
	c.Flags().StringVar(&r.failure, "failure", "", "with failed: the text that duplicates get")
	return c
}

// toResolution converts the flags to a resolution.
func (r *resolveFlags) toResolution() (retrysafe.Resolution, error) {
	res := retrysafe.Resolution{Fence: retrysafe.Fence(r.fence), Force: r.force, By: r.operator.by}
	if r.fence == 0 {
		return res, &usageError{errors.New("--fence is needed: keys show shows it, and it makes sure that the record is still what you saw")}
	}
	switch r.outcome {
	case "not-done":
		res.Outcome = retrysafe.NotDone
	case "failed":
		if r.failure == "" {
			return res, &usageError{errors.New("--outcome failed needs --failure, the text that duplicates get")}
		}
		res.Outcome, res.Failure = retrysafe.Failed, &retrysafe.Failure{Code: "resolved", Message: r.failure}
	case "done":
		res.Outcome = retrysafe.Done
		if r.status == 0 && (r.body != "" || r.location != "") {
			return res, &usageError{errors.New("--body and --location belong to an answer: give its --status too")}
		}
		if r.status == 0 {
			return res, nil
		}
		if err := r.checkAnswer(); err != nil {
			return res, &usageError{err}
		}
		var body []byte
		if r.body != "" {
			var err error
			if body, err = os.ReadFile(r.body); err != nil {
				return res, fmt.Errorf("--body: %w", err)
			}
		}
		h := http.Header{"Content-Type": {r.contentType}}
		if r.location != "" {
			h.Set("Location", r.location)
		}
		var err error
		if res.Answer, err = httpidem.StoredAnswer(r.status, h, body); err != nil {
			return res, &usageError{err}
		}
	default:
		return res, &usageError{fmt.Errorf("--outcome %q: write done, failed or not-done", r.outcome)}
	}
	return res, nil
}

// checkAnswer returns an error if the answer of the flags contradicts itself, or says that nothing
// was done.
func (r *resolveFlags) checkAnswer() error {
	switch {
	case r.body != "" && (r.status == http.StatusNoContent || r.status == http.StatusNotModified):
		return fmt.Errorf("--body: an answer of status %d has no body, and no duplicate would get it; leave --body out, or use another --status", r.status)
	case httpidem.NotRun(r.status):
		return fmt.Errorf("--status %d says that nothing was done, and --outcome done that it was. Say --outcome not-done, so that the next request runs, "+
			"or --outcome failed if it was refused for good", r.status)
	}
	return nil
}

func (f *keysFlags) resolveRecord(c *cobra.Command, name string, r *resolveFlags) (err error) {
	res, err := r.toResolution()
	if err == nil {
		err = r.operator.validate(true)
	}
	if err != nil {
		return err
	}
	s, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	rec, err := f.findChecked(c, s, d, name, true)
	if err != nil {
		return err
	}
	// Tokens are mostly used in HTTP requests; the record does not say.
	if layer := rec.Key.Layer; r.status != 0 && !slices.Contains([]string{"gw", "http", "nginx", "token"}, layer) {
		return &usageError{fmt.Errorf("--status makes an HTTP answer, and this record is of layer %s; leave it out", layer)}
	}
	if isReserved(rec.Key.Layer) {
		return &usageError{errors.New("entries of the audit log, the check value of the secret and the marks of the store are never resolved")}
	}
	return r.resolveAudited(c, s, d, &rec, res)
}
