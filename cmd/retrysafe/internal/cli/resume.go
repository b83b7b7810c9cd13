package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/storeapi"
)

// resumeFlags are the flags of resume, beyond those that it shares with keys.
type resumeFlags struct {
	keysFlags

	exec, post     string
	once           bool
	worker         retrysafe.WorkerOptions
	lease, timeout time.Duration

	mu  sync.Mutex // guards the output
	out io.Writer
}

func resumeCommand() *cobra.Command {
	var f resumeFlags
	c := &cobra.Command{
		Use: "resume", Args: cobra.NoArgs,
		Short: "Show what was abandoned half-done, and let a program finish it",
		Long: "resume shows calls that were abandoned: in doubt, or given back with a part of their steps done. With --exec or --post, and\n" +
			"--operation, it lets a program finish those that keep their input (Operation.Resumable) and may run again (Reexecute):\n\n" +
			"  --exec  runs a command of the shell. The input is its standard input, its standard output the answer. Exit code 0 is done, " + fmt.Sprint(exitNotDone) + "\n" +
			"          says that nothing was done, and with any other nobody knows. Its environment has RETRYSAFE_KEY, RETRYSAFE_TENANT,\n" +
			"          RETRYSAFE_OPERATION, RETRYSAFE_ATTEMPT, RETRYSAFE_FENCE, and RETRYSAFE_STEPS, the names of the steps that were done, in JSON.\n" +
			"  --post  sends the input to a URL, with the headers Idempotency-Key, Idempotency-Attempt, Idempotency-Fence, Retrysafe-Tenant,\n" +
			"          Retrysafe-Operation and Retrysafe-Steps. 2xx is done, and the body is the answer; 409, 425, 429, the header\n" +
			"          \"Idempotency-Outcome: not-executed\" and a refused connection say that nothing was done; else nobody knows.\n\n" +
			"An answer that is JSON is kept as such, any other as it is. What is in doubt under Refuse is shown and left to keys resolve. An\n" +
			"interrupt ends it when what runs has ended.",
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.Flags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "the store, or RETRYSAFE_STORE: sqlite:PATH, redis://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	c.Flags().StringVar(&f.namespace, "namespace", "", "only this namespace; needed with --exec or --post on Redis, PostgreSQL and MySQL")
	c.Flags().StringVar(&f.layer, "layer", "", `only this layer; with --exec or --post "fn" unless it is given`)
	c.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant (not with --exec or --post)")
	c.Flags().StringVar(&f.operation, "operation", "", "only this operation")
	c.Flags().BoolVar(&f.json, "json", false, "one JSON object a line")
	c.Flags().StringVar(&f.exec, "exec", "", "the command that finishes a call")
	c.Flags().StringVar(&f.post, "post", "", "the URL that finishes a call")
	c.Flags().BoolVar(&f.once, "once", false, "end after one pass")
	c.Flags().DurationVar(&f.worker.Every, "every", 10*time.Second, "time between two passes, more or less by half")
	c.Flags().Float64Var(&f.worker.Rate, "rate", 10, "begin at most so many in a second")
	c.Flags().IntVar(&f.worker.Parallel, "parallel", 4, "run at most so many at once")
	c.Flags().DurationVar(&f.worker.Backoff, "backoff", time.Second, "rest of a call after its first attempt; each further one doubles it")
	c.Flags().DurationVar(&f.worker.MaxBackoff, "max-backoff", 5*time.Minute, "the longest rest")
	c.Flags().IntVar(&f.worker.MaxAttempts, "max-attempts", 10, `after so many a call is left in doubt with the cause "attempts"`)
	c.Flags().DurationVar(&f.lease, "lease", 30*time.Second, "lease of an attempt; heartbeats extend it")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "the longest that a call may run")
	return c
}

func (f *resumeFlags) run(c *cobra.Command) (err error) {
	switch {
	case f.exec != "" && f.post != "":
		return &usageError{errors.New("--exec and --post: give one of them")}
	case f.exec != "" || f.post != "":
		if f.operation == "" {
			return &usageError{errors.New("--operation is needed: the program that --exec or --post names finishes calls of one operation")}
		}
		if f.tenant != "" {
			return &usageError{errors.New("--tenant only narrows the list; leave it out with --exec and --post")}
		}
	}
	if err := f.worker.Validate(); err != nil {
		return &usageError{err}
	}
	if f.exec != "" || f.post != "" {
		if err := needsNamespace(f.store, f.namespace); err != nil {
			return &usageError{err}
		}
	}
	f.looks = f.exec == "" && f.post == ""
	s, closeStore, err := f.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if f.exec == "" && f.post == "" {
		return f.list(c, s)
	}
	return f.finish(c, s)
}

// abandoned is an abandoned call in a list.
type abandoned struct {
	line

	Steps []string `json:"steps"`
	// Begun are steps that may run at most once and whose outcome is unknown.
	Begun []string `json:"begun,omitempty"`
	Input bool     `json:"input"`
}

// list lists the abandoned calls.
func (f *resumeFlags) list(c *cobra.Command, s storeapi.Store) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	out := json.NewEncoder(c.OutOrStdout())
	if !f.json {
		fmt.Fprintln(w, "HASH\tLAYER\tOPERATION\tSTATE\tATTEMPT\tAGE\tCAUSE\tINPUT\tSTEPS")
	}
	n := 0
	var failed error
	see := func(rec retrysafe.Record) bool {
		if rec.State == retrysafe.StateReleased && rec.Answer.Codec == "" {
			return true // no step was done
		}
		e := f.engine(s, rec.Key)
		full, err := e.Lookup(c.Context(), rec.Key.Key) // lists omit the steps that were done
		if err != nil || full.State.Finished() {
			return c.Context().Err() == nil // it has finished meanwhile, or is gone
		}
		a := abandoned{line: lineOf(e, &full), Steps: []string{}}
		p, err := retrysafe.ProgressOf(&full)
		if err != nil {
			failed = fmt.Errorf("%s: %w", a.Hash, err)
			return false
		}
		a.Input = p.Input.Codec != ""
		a.Steps, a.Begun = stepNames(&p)
		if f.json {
			_ = out.Encode(a) // the pipe may be closed
			return true
		}
		steps := shownSteps(a.Steps, a.Begun)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%v\t%s\n", a.Hash, printable(a.Layer), printable(a.Operation), a.State, a.Attempt,
			time.Duration(a.AgeS)*time.Second, printable(a.Cause), a.Input, steps)
		if n++; n%1000 == 0 {
			_ = w.Flush() // do not buffer a long list; the last Flush returns the error
		}
		return true
	}
	f.inDoubt = true
	err := f.each(c.Context(), s, c.ErrOrStderr(), see)
	if err == nil && failed == nil {
		f.inDoubt, f.state = false, "released"
		err = f.each(c.Context(), s, c.ErrOrStderr(), see)
	}
	if err == nil {
		err = f.nobodys(c.Context(), s)
	}
	return errors.Join(err, failed, w.Flush())
}

// stepNames returns the names of the steps that are done, and of those that have only begun.
func stepNames(p *retrysafe.Progress) (done, begun []string) {
	done = []string{}
	for _, s := range p.Steps {
		if s.Finished {
			done = append(done, s.Name)
		} else {
			begun = append(begun, s.Name)
		}
	}
	return done, begun
}

// finish lets the program finish the calls that it can, until the command is interrupted.
func (f *resumeFlags) finish(c *cobra.Command, s storeapi.Store) (err error) {
	f.out = c.OutOrStdout()
	log := logger(c.ErrOrStderr())
	o := &retrysafe.Options{
		Namespace: f.namespace, Secret: []byte(os.Getenv("RETRYSAFE_SECRET")), Sweep: -1, Logger: log, Trace: &retrysafe.Trace{Call: f.told},
		Policy: retrysafe.Policy{Lease: f.lease, MaxRun: max(f.lease, f.timeout), OnDoubt: retrysafe.Reexecute},
	}
	if err := o.Validate(); err != nil {
		return &usageError{err}
	}
	e := retrysafe.New(s, o)
	defer func() { err = errors.Join(err, e.Shutdown(context.WithoutCancel(c.Context()))) }()
	layer := f.layer
	if layer == "" {
		layer = "fn"
	}
	work := f.execute
	if f.post != "" {
		work = f.send
	}
	f.worker.Logger = log
	w := retrysafe.NewWorker(&f.worker, retrysafe.NewHandler(e.Layer(layer), f.operation, work, nil))
	if !f.once {
		return w.Run(c.Context())
	}
	p, err := w.Pass(c.Context())
	fmt.Fprintf(f.out, "found %d: finished %d, unfinished %d, too early %d, given up %d\n", p.Found, p.Finished, p.Unfinished, p.Early, p.GivenUp)
	return err
}

// told prints a line for each call that has ended.
func (f *resumeFlags) told(ctx context.Context, i retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
	return ctx, func(d retrysafe.CallDone) {
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprintf(f.out, "%s %s attempt %d, %v\n", i.Hash(), d.Outcome, d.Attempt, d.Took.Round(time.Millisecond))
	}
}
