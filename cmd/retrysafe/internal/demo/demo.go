// Package demo shows what the gateway and DoTx are for: a small shop, real HTTP requests, and each scene twice, without protection and
// with it.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Command runs the demonstration.
func Command() *cobra.Command {
	var once, asJSON bool
	at := loopback{addr: pageAddr}
	c := &cobra.Command{
		Use: "demo", Args: cobra.NoArgs,
		Short: "See repeated requests take effect twice without protection, and once with it",
		Long: "demo starts a small shop and a gateway before it, both on loopback, and sends real requests: each scene\n" +
			"straight to the shop first, then protected. Meanwhile, and until Ctrl-C, a page in the browser lets you press\n" +
			"and kill yourself. It keeps its files in a temporary directory and removes them.",
		RunE: func(c *cobra.Command, _ []string) error {
			if once || asJSON {
				return run(c.Context(), c.OutOrStdout(), nil, asJSON)
			}
			return run(c.Context(), c.OutOrStdout(), &at, false)
		},
	}
	c.Flags().BoolVar(&once, "once", false, "no page: end after the table; the exit code is 1 if a scene fails")
	c.Flags().BoolVar(&asJSON, "json", false, "no page: print the scenes as JSON, and end")
	c.Flags().Var(&at, "listen", "address of the page, on loopback; another free port if it is taken and not given here")
	return c
}

// run plays the scenes. It opens the page at an address, if it is given one, and then serves it until ctx ends.
func run(ctx context.Context, out io.Writer, at *loopback, asJSON bool) (err error) {
	say := func(format string, args ...any) {
		if !asJSON {
			fmt.Fprintf(out, format, args...)
		}
	}
	say("retrysafe demo: a shop that takes orders and payments, and a gateway before it, both on loopback.\n")
	dir, err := os.MkdirTemp("", "retrysafe-demo-")
	if err != nil {
		return fmt.Errorf("demo: no temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var p *page
	if at != nil {
		if p, err = openPage(ctx, dir, at); err != nil {
			return err
		}
		defer p.close()
		say("\n  Open http://%s in a browser: press Pay as often as you like, and kill the gateway.\n", p.addr)
	}
	err = scenario(ctx, out, dir, asJSON)
	if p != nil && ctx.Err() != nil {
		return nil // Ctrl-C while the scenes play
	}
	if err != nil {
		return err
	}
	say("\nEvery scene came out as it should.\n")
	if p == nil {
		return nil
	}
	say("\nTry it yourself: open http://%s, or send this, and again with the same key:\n\n"+
		"  curl -i http://%s/payments -u ann:demo -H 'Idempotency-Key: my-first-key' \\\n"+
		"       -H 'Content-Type: application/json' -d '{\"scene\":\"mine\",\"cents\":4200}'\n\n"+
		"Without protection: the same on http://%s. What happened: http://%s/effects?scene=mine\nCtrl-C ends it.\n",
		p.addr, p.stage.gateway.addr, p.stage.shop.addr, p.stage.shop.addr)
	<-ctx.Done()
	return nil
}

// scenario plays every scene on a stage of its own, and fails if one did not come out as it should.
func scenario(ctx context.Context, out io.Writer, dir string, asJSON bool) error {
	s, err := build(dir, "retrysafe", "--in-progress", "wait 5s", "--lease", "2s")
	if err != nil {
		return err
	}
	defer s.kill()
	if err := s.start(ctx); err != nil {
		return err
	}
	rows, failed := play(ctx, s, newTable(out, !asJSON))
	if asJSON {
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

// play runs the scenes one after the other, and shows each as it comes.
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
