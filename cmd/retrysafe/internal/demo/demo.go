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
	listen     loopbackFlag
	store      string // empty: each stage has its own file
	open       Opener
}

// Command returns the command that runs the demonstration. open opens a store that the user names.
func Command(open Opener) *cobra.Command {
	o := &options{listen: loopbackFlag{addr: pageAddr}, open: open}
	c := &cobra.Command{
		Use: "demo", Args: cobra.NoArgs,
		Short: "Show duplicates that take effect twice without protection, and once with it",
		Long: "demo starts a small shop and a gateway on loopback, and sends real requests: each scene first straight to the shop,\n" +
			"then protected. Until Ctrl-C, a page in the browser lets you send payments and kill the gateway. Its files are in a\n" +
			"temporary directory, which it removes. With --store the gateways keep their records in your own store. Those expire\n" +
			"within an hour. Redis then removes them; in a SQLite file they stay until the next sweep.",
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c.Context(), c.OutOrStdout(), o) },
	}
	c.Flags().BoolVar(&o.once, "once", false, "open no page and exit after the table; the exit code is 1 if a scene fails")
	c.Flags().BoolVar(&o.json, "json", false, "open no page, print the scenes as JSON, and exit")
	c.Flags().Var(&o.listen, "listen", "address of the page, on loopback; without this flag, another free port if it is taken")
	c.Flags().StringVar(&o.store, "store", "", "store of the gateways, in place of files: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	return c
}

// runDemo runs the scenes. Unless the options say otherwise, it opens the page, and then serves it
// until ctx ends.
func runDemo(ctx context.Context, out io.Writer, o *options) (err error) {
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
	if err := o.tryStore(ctx); err != nil {
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
	err = runScenario(ctx, out, dir, o)
	if p != nil && ctx.Err() != nil {
		return nil // Ctrl-C during the scenes
	}
	if p == nil && err != nil {
		return err
	}
	if err == nil {
		say("\nEvery scene came out as it should.\n")
	} else {
		say("\n%v; the page is there until Ctrl-C.\n", err) // it has its own shop and gateway
	}
	if p == nil {
		return nil
	}
	say("\nTry it yourself: open http://%s, or send this, and again with the same key:\n\n"+
		"  curl -i http://%s/payments -u ann:demo -H 'Idempotency-Key: %s' \\\n"+
		"       -H 'Content-Type: application/json' -d '{\"scene\":\"mine\",\"cents\":4200}'\n\n"+
		"Without protection: the same on http://%s. What happened: http://%s/effects?scene=mine\nCtrl-C ends it.\n",
		p.addr, p.stage.gateway.addr, p.stage.runKey("my-first-key"), p.stage.shop.addr, p.stage.shop.addr)
	<-ctx.Done()
	return err
}

// tryStore opens the user's store before anything else starts, so that its errors look as in every
// other command.
func (o *options) tryStore(ctx context.Context) error {
	if o.store == "" {
		return nil
	}
	_, end, err := o.open(ctx, o.store, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return end()
}

// runScenario runs every scene on its own stage, and fails if one has not the expected result.
func runScenario(ctx context.Context, out io.Writer, dir string, o *options) error {
	s, end, err := openScenes(ctx, dir, "retrysafe", o)
	if err != nil {
		return err
	}
	defer end()
	rows, failed := runScenes(ctx, s, newTable(out, !o.json))
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

// openScenes opens a stage for scenes. end ends it, and leaves nothing in doubt in the user's
// store.
func openScenes(ctx context.Context, dir, name string, o *options) (s *stage, end func(), err error) {
	s, err = openStage(ctx, dir, name, o, "--retention", "1h", "--in-progress", "wait 1m")
	if err != nil || !s.usersStore {
		return s, func() { s.kill() }, err
	}
	records, err := openRecords(ctx, o.open, s)
	if err != nil {
		s.kill()
		return nil, nil, err
	}
	return s, func() { s.kill(); records.close() }, nil
}

// runScenes runs the scenes one after the other, and shows each result as it comes.
func runScenes(ctx context.Context, s *stage, t *table) (rows []sceneResult, failed int) {
	t.printHead()
	for _, sc := range scenes {
		r := sceneResult{Scene: sc.name, Requests: sc.requests}
		t.printScene(r)
		var err error
		var harmless bool
		r.Without, _, harmless, err = sc.side(ctx, s, false)
		if err == nil && harmless {
			err = errors.New("without protection nothing went wrong either")
		}
		if err == nil {
			t.printWithout(r.Without)
			r.With, r.Answers, r.OK, err = sc.side(ctx, s, true)
		}
		if err != nil {
			r.Error, r.OK = err.Error(), false
		}
		if !r.OK {
			failed++
		}
		t.printWith(r)
		rows = append(rows, r)
		if ctx.Err() != nil {
			break
		}
	}
	return rows, failed
}
