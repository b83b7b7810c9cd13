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
	"path/filepath"

	"github.com/spf13/cobra"
)

// Command runs the demonstration.
func Command() *cobra.Command {
	var once, asJSON bool
	c := &cobra.Command{
		Use: "demo", Args: cobra.NoArgs,
		Short: "See repeated requests take effect twice without protection, and once with it",
		Long: "demo starts a small shop and a gateway before it, both on loopback, and sends real requests: each scene\n" +
			"straight to the shop first, then protected. It keeps its files in a temporary directory and removes them.",
		RunE: func(c *cobra.Command, _ []string) error {
			return run(c.Context(), c.OutOrStdout(), once, asJSON)
		},
	}
	c.Flags().BoolVar(&once, "once", false, "end after the table; the exit code is 1 if a scene fails")
	c.Flags().BoolVar(&asJSON, "json", false, "print the scenes as JSON, and end")
	return c
}

// stage is what the scenes play on.
type stage struct {
	shop, gateway *process
}

func (s *stage) client(protected bool, user string) *client {
	if protected {
		return newClient(s.gateway.addr, user)
	}
	return newClient(s.shop.addr, user)
}

func (s *stage) scene(name string, protected bool) string {
	if protected {
		return name + "-with"
	}
	return name + "-without"
}

func run(ctx context.Context, out io.Writer, once, asJSON bool) (err error) {
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
	s, err := build(dir)
	if err != nil {
		return err
	}
	defer s.shop.kill()
	defer s.gateway.kill()
	for _, p := range []*process{s.shop, s.gateway} {
		if err := p.start(ctx); err != nil {
			return err
		}
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
	say("\nEvery scene came out as it should.\n")
	if once || asJSON {
		return nil
	}
	say("\nTry it yourself, and again with the same key:\n\n"+
		"  curl -i http://%s/payments -u ann:demo -H 'Idempotency-Key: my-first-key' \\\n"+
		"       -H 'Content-Type: application/json' -d '{\"scene\":\"mine\",\"cents\":4200}'\n\n"+
		"Without protection: the same on http://%s. What happened: http://%s/effects?scene=mine\nCtrl-C ends it.\n",
		s.gateway.addr, s.shop.addr, s.shop.addr)
	<-ctx.Done()
	return nil
}

func build(dir string) (*stage, error) {
	shopAddr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	gatewayAddr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return &stage{
		shop: &process{
			name: "shop", addr: shopAddr, log: newTail(),
			args: []string{"demo-shop", "--listen", shopAddr, "--db", filepath.Join(dir, "shop.db")},
		},
		gateway: &process{
			name: "gateway", addr: gatewayAddr, log: newTail(),
			args: []string{
				"gateway", "--listen", gatewayAddr, "--upstream", "http://" + shopAddr,
				"--store", "sqlite:" + filepath.Join(dir, "retrysafe.db"), "--in-progress", "wait 5s", "--lease", "2s",
			},
		},
	}, nil
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
