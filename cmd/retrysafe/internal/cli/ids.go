package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/idserver"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/idgen"
)

type idsFlags struct {
	listen, store, layout, namespace, table string
	tags                                    []string
	replicas                                int
	acceptLoss                              bool
	drain                                   time.Duration
}

func idsCommand() *cobra.Command {
	var f idsFlags
	ids := &cobra.Command{Use: "ids", Short: "Serve unique ids over HTTP", RunE: onlySubcommands}
	serve := &cobra.Command{
		Use: "serve", Args: cobra.NoArgs, Short: "Serve unique ids over HTTP, for programs in any language",
		Long: "ids serve returns unique ids over HTTP. Several servers can share one store; no id is returned twice.\n\n" +
			"GET /api/snowflake/get/KEY   a number of 63 bits that sorts by time, made with a worker number that is leased in the store; KEY can be any text\n" +
			"GET /api/segment/get/TAG     the next number of a tag, from ranges that the store gives; make tags with --tag\n" +
			"GET /api/time                this server's time in milliseconds since 1970\n" +
			"?count=N                     N ids as a JSON array of strings\n" +
			"/healthz, /readyz, /metrics  for operators\n\n" +
			"It authenticates no one, so listen where only your programs can connect. SIGTERM: answer the requests in flight, give the worker\n" +
			"number back, and exit.",
		RunE: func(c *cobra.Command, _ []string) error {
			return f.serveIDs(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	serve.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8081", "address to listen on")
	serve.Flags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "store of worker numbers and ranges: memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	serve.Flags().StringVar(&f.layout, "layout", "twitter", "bit layout of snowflake ids: twitter, fast, uid-generator or sonyflake; it must be the same for all servers of a namespace, for ever")
	serve.Flags().StringVar(&f.namespace, "namespace", "ids", "worker numbers, and so snowflake ids, are unique in a namespace")
	serve.Flags().StringVar(&f.table, "table", "", "table of tags in a SQL store: default retrysafe_ids; leaf_alloc is the table of Leaf")
	serve.Flags().StringArrayVar(&f.tags, "tag", nil, "NAME, NAME:STEP or NAME:STEP:FIRST: create the tag if it does not exist, with ranges of STEP (1000) ids from FIRST (1); can be repeated")
	serve.Flags().IntVar(&f.replicas, "replicas", 0, "how many Redis replicas must confirm each range; -1: all")
	serve.Flags().BoolVar(&f.acceptLoss, "unsafe", false, "accept a store that can lose confirmed writes: ids can repeat after a crash or a failover")
	serve.Flags().DurationVar(&f.drain, "drain", 10*time.Second, "grace period for requests in flight at shutdown")
	ids.AddCommand(serve)
	return ids
}

var layouts = map[string]idgen.Layout{
	"twitter": idgen.Twitter(), "fast": idgen.Fast(), "uid-generator": idgen.UIDGenerator(), "sonyflake": idgen.Sonyflake(),
}

// mostWorkers is how many worker numbers there are.
const mostWorkers = 1024

// idsConfig is what the flags say.
type idsConfig struct {
	layout idgen.Layout
	store  storeName
	tags   []newTag
}

// parseFlags checks the flags. An error is a *usageError.
func (f *idsFlags) parseFlags() (*idsConfig, error) {
	layout, ok := layouts[f.layout]
	if !ok {
		return nil, &usageError{fmt.Errorf("--layout %q: write twitter, fast, uid-generator or sonyflake", f.layout)}
	}
	store, err := parseStore(f.store)
	if err != nil {
		return nil, &usageError{err}
	}
	tags, err := parseTags(f.tags)
	if err != nil {
		return nil, &usageError{err}
	}
	switch {
	case f.replicas < -1 || f.drain < 0:
		return nil, &usageError{errors.New("--replicas is a count or -1 for all, and --drain a positive time")}
	case f.table != "" && !store.hasTables():
		return nil, &usageError{errors.New("--table: only sqlite:PATH, postgres://HOST/DATABASE and mysql://HOST/DATABASE have tables")}
	case f.namespace == "" || len(f.namespace) > 128:
		return nil, &usageError{errors.New("--namespace has 1 to 128 bytes")}
	}
	return &idsConfig{layout, store, tags}, nil
}

func (f *idsFlags) serveIDs(ctx context.Context, out, errOut io.Writer) (err error) {
	set, err := f.parseFlags()
	if err != nil {
		return err
	}
	log := newLogger(errOut)
	l, err := listenIDs(f.listen)
	if err != nil {
		return err
	}
	opened := []func() error{func() error { _ = l.Close(); return nil }} // usually already closed
	defer func() {
		for _, one := range slices.Backward(opened) {
			err = errors.Join(err, one())
		}
	}()
	store, closeStore, err := openStore(ctx, f.store, log, toServe, storeSettings{acks: f.replicas, allowEviction: f.acceptLoss})
	if err != nil {
		return err
	}
	opened = append(opened, closeStore)
	ranges, closeRanges, err := openRanges(ctx, set.store, log, f)
	if err != nil {
		return err
	}
	opened = append(opened, closeRanges)
	for _, t := range set.tags {
		if _, err := ranges.Create(ctx, t.name, t.first, t.step); err != nil {
			return err
		}
	}
	if set.store.inMemory() {
		log.Warn("ids: the store is memory: ids of tags begin again when this process ends, and other servers give the same")
	}
	s, err := idserver.New(ctx, &idserver.Options{
		Store: store, Ranges: ranges, Log: log,
		Workers: &idgen.WorkersOptions{Namespace: f.namespace, Layout: set.layout, Max: int(min(set.layout.Workers(), mostWorkers)), Unsafe: f.acceptLoss || set.store.inMemory()},
	})
	if err != nil {
		return err
	}
	opened = append(opened, func() error {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return s.Close(end)
	})
	fmt.Fprintf(out, "retrysafe ids: http://%s, %s, numbers and ranges in %s, version %s\n", l.Addr(), s.Worker(), set.store, buildVersion())
	return f.serveUntil(ctx, l, s, log)
}

// serveUntil serves until ctx ends, and then waits for requests in flight.
func (f *idsFlags) serveUntil(ctx context.Context, l net.Listener, s *idserver.Server, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // the live heap is small: a few MB more save CPU time
	}
	server := gateway.NewServer(s, &gateway.ServerOptions{
		Header: 16 << 10, HeaderTime: 10 * time.Second, IdleTime: 2 * time.Minute, WriteTime: 30 * time.Second, Connections: math.MaxInt,
		Logger: log,
	})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.Drain()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.drain)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		_ = server.Close()
		return fmt.Errorf("ids: requests were still running after %v, and were cut off", f.drain)
	}
	return nil
}

func listenIDs(addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, &usageError{fmt.Errorf("--listen %q: write it like 127.0.0.1:8081", addr)}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("ids: cannot listen on %s: %w; choose another --listen", addr, err)
	}
	return l, nil
}

// newTag is a tag that must exist.
type newTag struct {
	name        string
	step, first int64
}

// parseTags parses NAME, NAME:STEP and NAME:STEP:FIRST.
func parseTags(texts []string) ([]newTag, error) {
	var tags []newTag
	for _, text := range texts {
		t := newTag{step: 1000, first: 1}
		parts := strings.Split(text, ":")
		t.name = parts[0]
		for i, v := range map[int]*int64{1: &t.step, 2: &t.first} {
			if i >= len(parts) {
				continue
			}
			n, err := strconv.ParseInt(parts[i], 10, 64)
			if err != nil {
				return nil, errors.New("--tag: write NAME, NAME:STEP or NAME:STEP:FIRST, with numbers for STEP and FIRST")
			}
			*v = n
		}
		if len(parts) > 3 {
			return nil, errors.New("--tag: write NAME, NAME:STEP or NAME:STEP:FIRST; a name with a colon goes straight into the table")
		}
		if err := idgen.CheckNew(t.name, t.first, t.step); err != nil {
			return nil, fmt.Errorf("--tag: %w", err)
		}
		tags = append(tags, t)
	}
	return tags, nil
}
