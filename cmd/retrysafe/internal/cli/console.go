package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/lock"
)

// consoleFlags are the flags of the console.
type consoleFlags struct {
	keysFlags
	listen, tokens, broker, queue, outbox, locks string
	audit                                        time.Duration
}

func consoleCommand() *cobra.Command {
	f := consoleFlags{broker: os.Getenv("RETRYSAFE_BROKER")}
	c := &cobra.Command{
		Use: "console", Args: cobra.NoArgs,
		Short: "Serve a page that lists and resolves what is in doubt",
		Long: "console serves a page for browsers and a JSON API: the records in doubt and their causes, a search, an audit log,\n" +
			"dead letters (--queue), an outbox (--outbox) and locks (--locks). A gateway serves the same on its admin address.\n\n" +
			"Without --tokens, a caller on this machine can read, and no one can change anything. \"retrysafe console token\"\n" +
			"makes a token. /api/v1/openapi.json describes the API.",
		RunE: func(c *cobra.Command, _ []string) error { return f.serveConsole(c) },
	}
	flags := c.Flags()
	f.addStoreFlag(flags)
	flags.StringVar(&f.namespace, "namespace", "app", "the only namespace that callers reach; without it they reach all of the store, and see app first")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8081", "address to listen on")
	flags.StringVar(&f.tokens, "tokens", "", "file with the tokens of callers, one per line")
	flags.StringVar(&f.broker, "broker", f.broker, "with --queue: broker of the consumer, or RETRYSAFE_BROKER: amqp://HOST/VHOST, nats://HOST or redis://HOST")
	flags.Lookup("broker").DefValue = "" // it may have a password
	flags.StringVar(&f.queue, "queue", "", "show the dead letters of this queue; NATS: STREAM/CONSUMER, Redis: STREAM/GROUP")
	flags.StringVar(&f.outbox, "outbox", "", "show the outbox in this database: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	flags.StringVar(&f.locks, "locks", "", "show the locks held there: redis://HOST, or a table in postgres://HOST/DATABASE, mysql://HOST/DATABASE or sqlite:PATH")
	f.seal.addTo(flags)
	flags.DurationVar(&f.audit, "audit", 400*24*time.Hour, "how long entries of the audit log are kept")
	c.AddCommand(consoleTokenCommand())
	return c
}

func (f *consoleFlags) serveConsole(c *cobra.Command) (err error) {
	o := admin.Options{Namespace: f.namespace, AllNamespaces: !c.Flags().Changed("namespace"), Console: true, Logger: newLogger(c.ErrOrStderr())}
	if f.tokens != "" {
		if o.Tokens, err = admin.ReadTokens(f.tokens); err != nil {
			return &usageError{fmt.Errorf("--tokens: %w", err)}
		}
	}
	f.longRunning = true
	s, records, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	f.compareShown(c, records, f.namespace)
	o.Audit = admin.NewAudit(s, f.namespace, f.audit)
	closeMessages, err := f.openSources(c.Context(), &o, records)
	if err != nil {
		return err
	}
	defer closeMessages()
	handler, err := admin.New(records, &o)
	if err != nil {
		return &usageError{err}
	}
	l, err := listenOn("--listen", f.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "retrysafe console: http://%s\n", l.Addr())
	return serveUntil(c.Context(), l, handler)
}

// openSources opens the dead letters, the outbox and the locks that the flags name.
func (f *consoleFlags) openSources(ctx context.Context, o *admin.Options, records *admin.Records) (closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for _, c := range closers {
			c()
		}
	}
	if f.queue != "" {
		queue, err := openDeadLetters(ctx, f.broker, f.queue, o.Logger)
		if err != nil {
			return nil, err
		}
		closers = append(closers, queue.Close)
		o.DeadLetters = map[string]*admin.DeadLetters{f.queue: admin.NewDeadLetters(queue, records, []byte(os.Getenv("RETRYSAFE_SECRET")))}
	}
	if f.outbox != "" {
		box, closeBox, err := openOutbox(f.outbox, o.Logger)
		if err != nil {
			closeAll()
			return nil, err
		}
		closers = append(closers, closeBox)
		o.Outboxes = map[string]admin.Outbox{"outbox": box}
	}
	if f.locks != "" {
		locks, closeLocks, err := openLocks(ctx, f.locks)
		if err != nil {
			closeAll()
			return nil, err
		}
		closers = append(closers, closeLocks)
		o.Locks = map[string]lock.Lister{"locks": locks}
	}
	return closeAll, nil
}

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(end)
}

func consoleTokenCommand() *cobra.Command {
	var roles string
	c := &cobra.Command{
		Use: "token NAME", Args: cobra.ExactArgs(1), Short: "Make a token for a caller",
		Long: "token prints a new token for its caller, and the line for the file of --tokens, which holds only a digest of it.",
		RunE: func(c *cobra.Command, args []string) error {
			parsed, err := admin.ParseRoles(roles)
			if err != nil {
				return &usageError{fmt.Errorf("--roles: %w", err)}
			}
			line, token := tokenLine(args[0], parsed)
			if _, err := admin.ParseTokens("NAME", []byte(line)); err != nil {
				return &usageError{err} // a name with a space in it
			}
			fmt.Fprintf(c.ErrOrStderr(), "token of %s, which is not shown again:\n%s\nline for the file of tokens:\n", Printable(args[0]), token)
			fmt.Fprintln(c.OutOrStdout(), line)
			return nil
		},
	}
	c.Flags().StringVar(&roles, "roles", "view", "what the caller may do, comma-separated: view, reveal, resolve")
	return c
}

// tokenLine makes a token and its line.
func tokenLine(name string, roles admin.Roles) (line, token string) {
	token = admin.TokenPrefix + rand.Text()
	return fmt.Sprintf("%s %s %x", name, roles, sha256.Sum256([]byte(token))), token
}
