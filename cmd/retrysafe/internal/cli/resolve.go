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
	outcome, by                 string
	status                      int
	contentType, body, location string
	failure                     string
}

func (r *resolveFlags) common(c *cobra.Command) {
	c.Flags().Uint64Var(&r.fence, "fence", 0, "the fence that keys show has shown: if the record has changed since, nothing happens")
	c.Flags().BoolVar(&r.force, "force", false, "also while an attempt holds a live lease; it may still act")
	c.Flags().StringVar(&r.by, "by", os.Getenv("USER"), "who found it out")
}

func releaseCommand(f *keysFlags) *cobra.Command {
	r := resolveFlags{outcome: "not-done"}
	c := &cobra.Command{
		Use: "release HASH|KEY --fence N", Args: cobra.ExactArgs(1), Short: "Nothing was done: let the next request run",
		Long: "release lets the next request with the key run. Do that only if the first one is known to be dead and without effect: one that\n" +
			"is merely held up can still act, unless the resource checks the fence.",
		RunE: func(c *cobra.Command, args []string) error { return f.resolve(c, args[0], &r) },
	}
	r.common(c)
	return c
}

func resolveCommand(f *keysFlags) *cobra.Command {
	var r resolveFlags
	c := &cobra.Command{
		Use: "resolve HASH|KEY --fence N --outcome done|failed|not-done", Args: cobra.ExactArgs(1), Short: "Say what became of a request in doubt",
		Long: "resolve settles a record. done: repeats get the answer that --status, --content-type, --location and --body give, or, without\n" +
			"--status, are told that it was done and the answer is not known. failed: repeats are told the words of --failure.",
		RunE: func(c *cobra.Command, args []string) error { return f.resolve(c, args[0], &r) },
	}
	r.common(c)
	c.Flags().StringVar(&r.outcome, "outcome", "", "done, failed or not-done")
	c.Flags().IntVar(&r.status, "status", 0, "done: status of the answer")
	c.Flags().StringVar(&r.contentType, "content-type", "application/json", "done: its Content-Type")
	c.Flags().StringVar(&r.location, "location", "", "done: its Location")
	c.Flags().StringVar(&r.body, "body", "", "done: file with its body")
	c.Flags().StringVar(&r.failure, "failure", "", "failed: what repeats are told")
	return c
}

// resolution converts the flags to a resolution.
func (r *resolveFlags) resolution() (retrysafe.Resolution, error) {
	res := retrysafe.Resolution{Fence: retrysafe.Fence(r.fence), Force: r.force, By: r.by}
	if r.fence == 0 {
		return res, &usageError{errors.New("--fence is needed: keys show shows it, and it makes sure that the record is still what you saw")}
	}
	switch r.outcome {
	case "not-done":
		res.Outcome = retrysafe.NotDone
	case "failed":
		if r.failure == "" {
			return res, &usageError{errors.New("--outcome failed needs --failure: what are repeats told?")}
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

func (f *keysFlags) resolve(c *cobra.Command, name string, r *resolveFlags) (err error) {
	res, err := r.resolution()
	if err != nil {
		return err
	}
	s, closeStore, err := f.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	e, rec, err := f.find(c, s, name)
	if err != nil {
		return err
	}
	// Tokens are mostly used in HTTP requests; the record does not say.
	if layer := rec.Key.Layer; r.status != 0 && !slices.Contains([]string{"gw", "http", "nginx", "token"}, layer) {
		return &usageError{fmt.Errorf("--status makes an HTTP answer, and this record is of layer %s; leave it out", layer)}
	}
	if err := e.Resolve(c.Context(), rec.Key.Key, res); err != nil {
		return err
	}
	rec, err = e.Lookup(c.Context(), rec.Key.Key)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s is %s now, fence %d\n", e.KeyHash(rec.Key.Key), lineOf(e, &rec).State, rec.Fence)
	return nil
}
