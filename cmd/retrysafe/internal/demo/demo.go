// Package demo shows the purpose of the gateway and of DoTx: with a small shop and real HTTP
// requests, it runs each scene without and with protection.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// options are the options of a demonstration.
type options struct {
	once, json bool // without the page
	listen     loopback
	store      string // empty: each stage has its own file
	open       Opener
}

// Command returns the command that runs the demonstration. open opens a store that the user names.
func Command(open Opener) *cobra.Command {
	o := &options{listen: loopback{addr: pageAddr}, open: open}
	c := &cobra.Command{
		Use: "demo", Args: cobra.NoArgs,
		Short: "See repeated requests take effect twice without protection, and once with it",
		Long: "demo starts a small shop and a gateway before it, both on loopback, and sends real requests: each scene\n" +
			"straight to the shop first, then protected. Meanwhile, and until Ctrl-C, a page in the browser lets you press\n" +
			"and kill yourself. It keeps its files in a temporary directory and removes them. With --store the gateways keep\n" +
			"their records in a store of yours, where none counts after an hour. Redis removes them then; in a SQLite file they\n" +
			"stay until something that uses the file sweeps it.",
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), c.OutOrStdout(), o) },
	}
	c.Flags().BoolVar(&o.once, "once", false, "no page: end after the table; the exit code is 1 if a scene fails")
	c.Flags().BoolVar(&o.json, "json", false, "no page: print the scenes as JSON, and end")
	c.Flags().Var(&o.listen, "listen", "address of the page, on loopback; another free port if it is taken and not given here")
	c.Flags().StringVar(&o.store, "store", "", "where the gateways keep records, in place of files: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	return c
}

// run runs the scenes. Unless the options say otherwise, it opens the page, and then serves it
// until ctx ends.
func run(ctx context.Context, out io.Writer, o *options) (err error) {
	if os.Getenv(secretName) == "" {
		if err := os.Setenv(secretName, ownSecret); err != nil { // the gateways read it from there
			return err
		}
	}
	say := func(format string, args ...any) {
		if !o.json {
			fmt.Fprintf(out, format, args...)
		}
	}
	if err := o.look(ctx); err != nil {
		return err
	}
	say("retrysafe demo: a shop that takes orders and payments, and a gateway before it, both on loopback.\n")
	dir, err := os.MkdirTemp("", "retrysafe-demo-")
	if err != nil {
		return fmt.Errorf("demo: no temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var p *page
	if !o.once && !o.json {
		if p, err = openPage(ctx, dir, o); err != nil {
			return err
		}
		defer p.close()
		say("\n  Open http://%s in a browser: press Pay as often as you like, and kill the gateway.\n", p.addr)
	}
	err = scenario(ctx, out, dir, o)
	if p != nil && ctx.Err() != nil {
		return nil // Ctrl-C during the scenes
	}
	if err != nil {
		return err
	}
	say("\nEvery scene came out as it should.\n")
	if p == nil {
		return nil
	}
	say("\nTry it yourself: open http://%s, or send this, and again with the same key:\n\n"+
		"  curl -i http://%s/payments -u ann:demo -H 'Idempotency-Key: %s' \\\n"+
		"       -H 'Content-Type: application/json' -d '{\"scene\":\"mine\",\"cents\":4200}'\n\n"+
		"Without protection: the same on http://%s. What happened: http://%s/effects?scene=mine\nCtrl-C ends it.\n",
		p.addr, p.stage.gateway.addr, p.stage.key("my-first-key"), p.stage.shop.addr, p.stage.shop.addr)
	<-ctx.Done()
	return nil
}

// look opens the user's store before anything else starts, so that its errors look as in every
// other command.
func (o *options) look(ctx context.Context) error {
	if o.store == "" {
		return nil
	}
	_, end, err := o.open(ctx, o.store, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return end()
}

// scenario runs every scene on its own stage, and fails if one has not the expected result.
func scenario(ctx context.Context, out io.Writer, dir string, o *options) error {
	s, err := open(ctx, dir, "retrysafe", o.store, "--in-progress", "wait 1m", "--lease", "4s")
	if err != nil {
		return err
	}
	defer s.kill()
	if s.stays {
		records, err := openRecords(ctx, o.open, s)
		if err != nil {
			return err
		}
		defer func() { s.kill(); records.close() }()
	}
	rows, failed := play(ctx, s, newTable(out, !o.json))
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(rows); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("demo: %d of %d scenes did not come out as they should", failed, len(rows))
	}
	return nil
}

// play runs the scenes one after the other, and shows each result as it comes.
func play(ctx context.Context, s *stage, t *table) (rows []row, failed int) {
	t.head()
	for _, sc := range scenes {
		r := row{Scene: sc.name, Requests: sc.requests}
		t.begin(r)
		var err error
		var harmless bool
		r.Without, _, harmless, err = sc.side(ctx, s, false)
		if err == nil && harmless {
			err = errors.New("without protection nothing went wrong either")
		}
		if err == nil {
			t.without(r.Without)
			r.With, r.Answers, r.OK, err = sc.side(ctx, s, true)
		}
		if err != nil {
			r.Error, r.OK = err.Error(), false
		}
		if !r.OK {
			failed++
		}
		t.end(r)
		rows = append(rows, r)
		if ctx.Err() != nil {
			break
		}
	}
	return rows, failed
}
