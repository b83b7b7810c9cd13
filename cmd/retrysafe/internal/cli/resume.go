package cli

import (
	"cmp"
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
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// resumeFlags are the flags of resume, beyond those that it shares with keys.
type resumeFlags struct {
	keysFlags

	exec, post     string
	once           bool
	worker         retrysafe.WorkerOptions
	lease, timeout time.Duration

	operator operator

	mu  sync.Mutex // guards the output
	out io.Writer
}

func resumeCommand() *cobra.Command {
	var f resumeFlags
	c := &cobra.Command{
		Use: "resume", Args: cobra.NoArgs,
		Short: "List abandoned calls, and let a program finish them",
		Long: "resume lists abandoned calls: those in doubt, and those released with some of their steps done. With --operation and\n" +
			"--exec or --post, a program finishes those that keep their input (Operation.Resumable) and may run again (Reexecute):\n\n" +
			"  --exec  runs a shell command. Its standard input is the input of the call, its standard output the answer. Exit code\n" +
			"          0 means done, " + fmt.Sprint(exitNotDone) + " means that nothing was done, and any other leaves the call in doubt. Its environment\n" +
			"          has RETRYSAFE_KEY, RETRYSAFE_TENANT, RETRYSAFE_OPERATION, RETRYSAFE_ATTEMPT, RETRYSAFE_FENCE, and\n" +
			"          RETRYSAFE_STEPS: the names of the finished steps, in JSON.\n" +
			"  --post  sends the input to a URL, with the headers Idempotency-Key, Idempotency-Attempt, Idempotency-Fence, Retrysafe-Tenant,\n" +
			"          Retrysafe-Operation and Retrysafe-Steps. 2xx means done, and the body is the answer. 401, 403, 407,\n" +
			"          408, 421, 425, 426, 428, 429, 431, the header \"Idempotency-Outcome: not-executed\" and a refused connection mean\n" +
			"          that nothing was done. Anything else leaves the call in doubt.\n\n" +
			"An answer is stored as JSON if it is JSON, otherwise byte for byte. Calls in doubt under Refuse are listed, never run:\n" +
			"use \"keys resolve\". An interrupt lets running calls finish and then exits.\n\n" +
			"Each call that the program gets, and each that is given up, has its entries in the audit log of the namespace. If an\n" +
			"entry cannot be written, the call does not run. The list changes nothing and has no entries.",
		RunE: func(c *cobra.Command, _ []string) error { return f.runResume(c) },
	}
	f.addStoreFlag(c.Flags())
	c.Flags().StringVar(&f.namespace, "namespace", "", "only this namespace; required with --exec or --post on Redis, PostgreSQL and MySQL")
	f.seal.addTo(c.Flags())
	c.Flags().StringVar(&f.layer, "layer", "", `only this layer; the default with --exec or --post is fn`)
	c.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant (not with --exec or --post)")
	c.Flags().StringVar(&f.operation, "operation", "", "only this operation")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object per line")
	c.Flags().StringVar(&f.exec, "exec", "", "shell command that finishes a call")
	c.Flags().StringVar(&f.post, "post", "", "URL that finishes a call")
	c.Flags().BoolVar(&f.once, "once", false, "exit after one pass")
	c.Flags().DurationVar(&f.worker.Every, "every", 10*time.Second, "time between two passes, plus or minus half")
	c.Flags().Float64Var(&f.worker.Rate, "rate", 10, "start at most this many calls a second")
	c.Flags().IntVar(&f.worker.Concurrency, "parallel", 4, "run at most this many calls at once")
	c.Flags().DurationVar(&f.worker.MinWait, "backoff", time.Second, "pause after the first attempt of a call; each further attempt doubles it")
	c.Flags().DurationVar(&f.worker.MaxWait, "max-backoff", 5*time.Minute, "longest pause")
	c.Flags().IntVar(&f.worker.MaxAttempts, "max-attempts", 10, `leave a call in doubt with the cause "attempts" after this many`)
	c.Flags().DurationVar(&f.lease, "lease", 30*time.Second, "lease of an attempt; heartbeats extend it")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "longest run of a call")
	f.operator.addFlags(c, "why, for the audit log")
	return c
}

func (f *resumeFlags) runResume(c *cobra.Command) (err error) {
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
		if err := f.operator.validate(false); err != nil {
			return err
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
	f.longRunning = (f.exec != "" || f.post != "") && !f.once
	s, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if f.exec == "" && f.post == "" {
		return f.listAbandoned(c, s, d)
	}
	if err := requireSameSecret(c.Context(), d, cmp.Or(f.namespace, "app")); err != nil {
		return err
	}
	return f.finishCalls(c, s)
}

// abandonedLine is an abandoned call in a list.
type abandonedLine struct {
	recordLine

	Steps []string `json:"steps"`
	// Begun are steps that may run at most once and whose outcome is unknown.
	Begun []string `json:"begun,omitempty"`
	Input bool     `json:"input"`
}

// listAbandoned lists the abandoned calls.
func (f *resumeFlags) listAbandoned(c *cobra.Command, s storeapi.Store, d *admin.Records) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	out := json.NewEncoder(c.OutOrStdout())
	if !f.json {
		fmt.Fprintln(w, "HASH\tLAYER\tOPERATION\tSTATE\tATTEMPT\tAGE\tCAUSE\tINPUT\tSTEPS")
	}
	n := 0
	var failed error
	see := func(rec *retrysafe.Record) bool {
		if rec.State == retrysafe.StateReleased && rec.Answer.Codec == "" {
			return true // no step was done
		}
		full, err := d.Lookup(c.Context(), rec.Key) // lists omit the steps that were done
		if err != nil || full.State.Finished() {
			return c.Context().Err() == nil // it has finished meanwhile, or is gone
		}
		f.compareShown(c, d, full.Key.Namespace)
		a := abandonedLine{recordLine: lineOf(d, &full), Steps: []string{}}
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
		steps := stepsText(a.Steps, a.Begun)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%v\t%s\n", a.Hash, Printable(a.Layer), Printable(a.Operation), a.State, a.Attempt,
			time.Duration(a.AgeS)*time.Second, Printable(a.Cause), a.Input, steps)
		if n++; n%1000 == 0 {
			_ = w.Flush() // do not buffer a long list; the last Flush returns the error
		}
		return true
	}
	f.inDoubt = true
	req, err := f.listRequest()
	if err != nil {
		return err
	}
	_, err = f.eachRecord(c.Context(), d, req, c.ErrOrStderr(), see)
	if err == nil && failed == nil {
		req.InDoubt, req.Asked, req.State = false, false, retrysafe.StateReleased
		_, err = f.eachRecord(c.Context(), d, req, c.ErrOrStderr(), see)
	}
	if err == nil {
		err = f.checkLayer(c.Context(), s)
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

// finishCalls lets the program finish the calls that it can, until the command is interrupted.
func (f *resumeFlags) finishCalls(c *cobra.Command, s storeapi.Store) (err error) {
	f.out = c.OutOrStdout()
	log := newLogger(c.ErrOrStderr())
	layer := cmp.Or(f.layer, "fn")
	entries := resumeAudit{log: auditLog(s, cmp.Or(f.namespace, "app")), operator: f.operator, flagName: "by --exec", warn: log}
	work := f.execCommand
	if f.post != "" {
		entries.flagName, work = "by --post", f.postRequest
	}
	o := &retrysafe.Options{
		Namespace: f.namespace, Secret: []byte(os.Getenv("RETRYSAFE_SECRET")), Sweep: -1, Logger: log,
		Trace:  &retrysafe.Trace{Call: entries.traceCall(f.printDone), InDoubt: entries.auditGivenUp},
		Policy: retrysafe.Policy{Lease: f.lease, MaxRun: max(f.lease, f.timeout), OnDoubt: retrysafe.Reexecute},
	}
	if err := o.Validate(); err != nil {
		return &usageError{err}
	}
	e := retrysafe.New(s, o)
	defer func() { err = errors.Join(err, e.Shutdown(context.WithoutCancel(c.Context()))) }()
	entries.hash = e.Layer(layer).KeyHash
	f.worker.Logger = log
	w := retrysafe.NewWorker(&f.worker, retrysafe.NewHandler(e.Layer(layer), f.operation, entries.auditWork(work), nil))
	if !f.once {
		return w.Run(c.Context())
	}
	p, err := w.Pass(c.Context())
	fmt.Fprintf(f.out, "found %d: finished %d, unfinished %d, too early %d, given up %d\n", p.Found, p.Finished, p.Unfinished, p.Early, p.GivenUp)
	return err
}

// printDone prints a line for a call that has ended.
func (f *resumeFlags) printDone(hash string, d *retrysafe.CallDone) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "%s %s attempt %d, %v\n", hash, d.Outcome, d.Attempt, d.Took.Round(time.Millisecond))
}
