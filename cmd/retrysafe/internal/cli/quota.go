package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func quotaCommand(f *keysFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "quota", Args: cobra.NoArgs, Short: "Show what a tenant uses of its limits",
		Long: "quota shows what the store has counted for a tenant: keys within their time, bytes, and how full the burst of each rate is.\n" +
			"Compare it with limits in the configuration of the gateway or the policy of the service. Nothing is counted by looking.\n\n" +
			"--namespace is that of the service, by default app. Without --tenant and --user it is the tenant of callers without a\n" +
			"name.\n\n" + userHelp + "\n\n" +
			"A gateway that does not verify its callers counts a caller with an Authorization header by the whole header: give\n" +
			"credential:@FILE.",
		RunE: func(c *cobra.Command, _ []string) error { return f.showQuota(c) },
	}
	c.Flags().StringVar(&f.tenant, "tenant", "", "the tenant")
	f.addUserFlag(c)
	c.Flags().BoolVar(&f.json, "json", false, "one JSON object")
	return c
}

func (f *keysFlags) showQuota(c *cobra.Command) (err error) {
	req := storeapi.UsageRequest{Namespace: cmp.Or(f.namespace, "app"), Tenant: f.tenant}
	if err := req.Validate(); err != nil {
		return &usageError{err}
	}
	_, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	u, err := f.readUsage(c, d, req)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(quotaOf(&u))
	}
	return printUsage(c.OutOrStdout(), &u)
}

// readUsage returns what a tenant uses. If --user names the caller, it is the usage under the one
// name of the caller that has some.
func (f *keysFlags) readUsage(c *cobra.Command, d *admin.Records, req storeapi.UsageRequest) (u storeapi.Usage, err error) {
	caller, err := f.callerName(c)
	if err != nil {
		return u, err
	}
	names := []string{req.Tenant}
	if caller != nil {
		names = d.AccountsOf(*caller)
		f.compareShown(c, d, req.Namespace)
	}
	u, several, err := d.UsageOfAny(c.Context(), req.Namespace, names)
	switch {
	case err != nil:
		return u, fmt.Errorf("keys: %w", err)
	case several:
		return u, errors.New("several tenants with something counted have this name; name the caller by its kind, such as basic:NAME, or give its --tenant")
	case caller != nil && u.Keys == 0 && u.Bytes == 0 && len(u.Rates) == 0:
		fmt.Fprintln(c.ErrOrStderr(), "nothing is counted under a name of this caller; a gateway that does not verify its callers counts by the whole Authorization header: --user credential:@FILE")
	}
	return u, nil
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
