package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/check"
)

// oracleFlags say how effects are counted.
type oracleFlags struct{ page, command, webhooks, webhookID, proxy string }

func (f *oracleFlags) addTo(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.page, "count", "", "page with the effects, and a JSONPath of what counts: 'GET /orders | $.total'; it is fetched with the request's credentials")
	flags.StringVar(&f.command, "count-command", "", "command that prints the number of effects")
	flags.StringVar(&f.webhooks, "webhooks", "", "count the webhooks that the API sends to this address, as 127.0.0.1:9999")
	flags.StringVar(&f.webhookID, "webhook-id", "", "with --webhooks: field or JSONPath of a webhook's id, so that a webhook that is sent twice counts once")
	flags.StringVar(&f.proxy, "proxy", "", "start a proxy before the service and count what reaches it, 127.0.0.1:9000=http://localhost:8080; the guard must send to the proxy")
}

// openOracle makes the oracle, and what makes the service fail where a proxy can. Listeners are not
// opened for a plan.
func (f *oracleFlags) openOracle(t *check.Target, errOut io.Writer, plan bool) (closeOracle func(), err error) {
	given := 0
	for _, s := range []string{f.page, f.command, f.webhooks, f.proxy} {
		if s != "" {
			given++
		}
	}
	none := func() {}
	switch {
	case given > 1:
		return nil, errors.New("count effects in one way: --count, --count-command, --webhooks or --proxy")
	case f.webhookID != "" && f.webhooks == "":
		return nil, errors.New("--webhook-id goes with --webhooks")
	case f.page != "":
		page, err := check.ParsePage(f.page, t.Request.URL)
		page.Header = t.Request.Header.Clone()
		page.Header.Del("Content-Type")
		t.Oracle = page
		return none, err
	case f.command != "":
		t.Oracle = check.Command{Args: []string{"sh", "-c", f.command}}
		return none, nil
	case given == 0 || plan:
		return none, nil
	case f.webhooks != "":
		return f.openWebhooks(t, errOut)
	}
	return f.openProxy(t, errOut)
}

func (f *oracleFlags) openWebhooks(t *check.Target, errOut io.Writer) (func(), error) {
	w, err := check.ListenWebhooks(f.webhooks)
	if err != nil {
		return nil, err
	}
	if f.webhookID != "" {
		if err := w.Distinct(f.webhookID); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	t.Oracle = w
	fmt.Fprintf(errOut, "webhooks are counted at %s\n", w.URL())
	return func() { _ = w.Close() }, nil
}

func (f *oracleFlags) openProxy(t *check.Target, errOut io.Writer) (func(), error) {
	addr, upstream, ok := strings.Cut(f.proxy, "=")
	if !ok {
		return nil, errors.New("--proxy: write it as 127.0.0.1:9000=http://localhost:8080")
	}
	p, err := check.ListenProxy(addr, upstream)
	if err != nil {
		return nil, err
	}
	t.Oracle = p
	if t.ClientError == nil {
		t.ClientError = p.ClientError()
	}
	if t.TooMany == nil {
		t.TooMany = p.TooMany()
	}
	if t.ServerError == nil {
		t.ServerError = p.ServerError()
	}
	fmt.Fprintf(errOut, "the proxy before the service is %s\n", p.URL())
	return func() { _ = p.Close() }, nil
}
