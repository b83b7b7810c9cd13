package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/storeapi"
)

func quotaCommand(f *keysFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "quota", Args: cobra.NoArgs, Short: "Show what a tenant uses of its limits",
		Long: "quota shows what the store has counted for a tenant: keys within their time, bytes, and how full the burst of each rate is.\n" +
			"Compare it with limits in the configuration of the gateway or the policy of the service. Nothing is counted by looking.\n\n" +
			"--namespace is that of the service, by default app. Without --tenant it is the tenant of callers without a name.",
		RunE: func(c *cobra.Command, _ []string) error { return f.quota(c) },
	}
	c.Flags().StringVar(&f.tenant, "tenant", "", "the tenant")
	c.Flags().BoolVar(&f.json, "json", false, "one JSON object")
	return c
}

func (f *keysFlags) quota(c *cobra.Command) (err error) {
	req := storeapi.UsageRequest{Namespace: f.namespace, Tenant: f.tenant}
	if req.Namespace == "" {
		req.Namespace = "app"
	}
	if err := req.Validate(); err != nil {
		return &usageError{err}
	}
	_, d, closeStore, err := f.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	u, err := d.Usage(c.Context(), req)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if f.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(quotaOf(&u))
	}
	return printUsage(c.OutOrStdout(), &u)
}

// quotaLine is what a tenant uses, in JSON.
type quotaLine struct {
	Keys   int64       `json:"keys"`
	Bytes  int64       `json:"bytes"`
	FreesS int64       `json:"frees_s,omitempty"`
	Rates  []quotaRate `json:"rates"`
}

type quotaRate struct {
	PerSecond float64 `json:"per_second"`
	Used      int64   `json:"used"`
	IdleS     int64   `json:"idle_s"`
}

func quotaOf(u *storeapi.Usage) quotaLine {
	l := quotaLine{Keys: u.Keys, Bytes: u.Bytes, Rates: []quotaRate{}}
	if !u.Frees.IsZero() {
		l.FreesS = int64(u.Frees.Sub(u.Now).Seconds())
	}
	for _, r := range u.Rates {
		l.Rates = append(l.Rates, quotaRate{r.PerSecond, r.Used, int64(r.Idle.Seconds())})
	}
	return l
}

func printUsage(out io.Writer, u *storeapi.Usage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "live keys\t%d\n", u.Keys)
	fmt.Fprintf(w, "bytes\t%d\n", u.Bytes)
	if !u.Frees.IsZero() {
		fmt.Fprintf(w, "first key stops to count in\t%s\n", u.Frees.Sub(u.Now).Round(time.Second))
	}
	for _, r := range u.Rates {
		fmt.Fprintf(w, "%v keys a second\t%d of the burst used, idle in %s\n", r.PerSecond, r.Used, r.Idle.Round(time.Second))
	}
	return w.Flush()
}
