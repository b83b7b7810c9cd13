package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// storeFigures are what docs/benchmarks.md measured for a store.
type storeFigures struct {
	kind     string
	perKey   float64 // bytes of a finished record besides its answer, indexes included
	perByte  float64 // bytes on disk, or in memory, for each byte of a record
	perSec   float64 // new keys a second that the two processors handled, the callers included
	measured string  // with how many records
}

// measuredFigures are of one machine, which had other work too.
var measuredFigures = []storeFigures{
	{"sqlite", 248, 1, 8420, "ten million records"},
	{"postgres", 259, 1, 3810, "ten million records"},
	// the pages of a table that grows in random places are two thirds full
	{"mysql", 282, 1.5, 1450, "MariaDB 10.11, ten million records"},
	{"redis", 370, 1, 17_700, "ten million records, in memory; the rate with an empty store"},
}

const (
	figuresOf = "2026-11, two processors, docs/benchmarks.md"

	// Of a gateway, measured with 4000 idle connections and 2000 requests in work.
	gatewayBase          = 26 << 20
	gatewayPerConnection = 32 << 10
	gatewayPerRequest    = 72 << 10
	// a body, what is read of it ahead, and what the runtime has not freed yet
	bodiesInMemory       = 3
	gatewaySecondsPerKey = 55e-6
)

// capacityFlags are the flags of capacity.
type capacityFlags struct {
	store       string
	rate        float64
	peak        float64
	answer      int64
	retention   time.Duration
	connections int64
	running     int64
	body        int64
	json        bool
}

func capacityCommand() *cobra.Command {
	var f capacityFlags
	c := &cobra.Command{
		Use: "capacity", Args: cobra.NoArgs, Short: "Estimate what a store and a gateway need",
		Long: "capacity estimates how large the records of a service become, how much of a server new keys take, and how much memory\n" +
			"a gateway needs. It connects to nothing. The figures were measured on one machine, which docs/benchmarks.md names: measure\n" +
			"yours with \"retrysafe bench store\", and plan with a margin. Records that have expired stay until they are swept, a few\n" +
			"minutes later.",
		RunE: func(c *cobra.Command, _ []string) error { return f.estimate(c.OutOrStdout()) },
	}
	c.Flags().Float64Var(&f.rate, "rate", 10, "new keys a second, on the average of the retention")
	c.Flags().Float64Var(&f.peak, "peak", 4, "how many times as many there are in the busiest second")
	c.Flags().Int64Var(&f.answer, "answer", 1000, "bytes of a stored answer, header fields included")
	c.Flags().DurationVar(&f.retention, "retention", 24*time.Hour, "how long a stored answer is replayed")
	c.Flags().StringVar(&f.store, "store", "", "only this kind of store, by its address; without it, all: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	ignoreEnvironment(c.Flags()) // it opens none
	c.Flags().Int64Var(&f.connections, "connections", 1000, "connections of clients to one gateway")
	c.Flags().Int64Var(&f.running, "running", 100, "requests that one gateway has in work at a time")
	c.Flags().Int64Var(&f.body, "body", 2000, "bytes of a request's body")
	c.Flags().BoolVar(&f.json, "json", false, "one JSON object")
	return c
}

// capacity is the estimate.
type capacity struct {
	Keys    float64         `json:"keys"`
	Stores  []storeCapacity `json:"stores"`
	Gateway gatewayCapacity `json:"gateway"`
	Figures string          `json:"figures"`
}

type storeCapacity struct {
	Store     string  `json:"store"`
	KeyBytes  float64 `json:"key_bytes"`
	Bytes     float64 `json:"bytes"`
	PeakShare float64 `json:"peak_share"` // of the machine that was measured
	Measured  string  `json:"measured"`
}

type gatewayCapacity struct {
	Memory         float64 `json:"memory_bytes"`
	PeakProcessors float64 `json:"peak_processors"`
}

func (f *capacityFlags) estimate(out io.Writer) error {
	figures, err := f.chooseFigures()
	switch {
	case err != nil:
		return &usageError{err}
	case f.rate <= 0 || f.peak < 1 || f.retention <= 0:
		return &usageError{errors.New("--rate and --retention are more than zero, and --peak is at least 1")}
	case f.answer < 0 || f.connections < 0 || f.running < 0 || f.body < 0:
		return &usageError{errors.New("--answer, --connections, --running and --body cannot be negative")}
	}
	all := f.calculate(figures)
	if f.json {
		return json.NewEncoder(out).Encode(all)
	}
	return f.print(out, &all)
}

// chooseFigures returns the figures of the store, or of all.
func (f *capacityFlags) chooseFigures() ([]storeFigures, error) {
	if f.store == "" {
		return measuredFigures, nil
	}
	n, err := parseStore(f.store)
	if err != nil {
		return nil, err
	}
	kind := ""
	switch {
	case n.path != "":
		kind = "sqlite"
	case n.postgres != nil:
		kind = "postgres"
	case n.mysql != nil:
		kind = "mysql"
	case n.redis != nil:
		kind = "redis"
	default:
		return nil, errors.New("memory: keeps nothing after a restart, so it is for trials; choose another --store")
	}
	i := slices.IndexFunc(measuredFigures, func(s storeFigures) bool { return s.kind == kind })
	return measuredFigures[i : i+1], nil
}

func (f *capacityFlags) calculate(figures []storeFigures) capacity {
	all := capacity{Keys: f.rate * f.retention.Seconds(), Figures: figuresOf}
	for _, s := range figures {
		key := (s.perKey + float64(f.answer)) * s.perByte
		all.Stores = append(all.Stores, storeCapacity{s.kind, key, key * all.Keys, f.rate * f.peak / s.perSec, s.measured})
	}
	all.Gateway.Memory = gatewayBase + float64(f.connections)*gatewayPerConnection +
		float64(f.running)*(gatewayPerRequest+bodiesInMemory*float64(f.body+f.answer))
	all.Gateway.PeakProcessors = f.rate * f.peak * gatewaySecondsPerKey
	return all
}

func (f *capacityFlags) print(out io.Writer, all *capacity) error {
	fmt.Fprintf(out, "%.0f keys at a time: %v new ones a second, kept for %v\n\n", all.Keys, f.rate, f.retention)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STORE\tBYTES A KEY\tSIZE\tSHARE OF THE MACHINE AT THE PEAK\tMEASURED WITH")
	for _, s := range all.Stores {
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\n", s.Store, s.KeyBytes, sizeText(s.Bytes), shareText(s.PeakShare), s.Measured)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\na gateway: %s of memory, %.2g processors at the peak\nfigures: %s\n", sizeText(all.Gateway.Memory), all.Gateway.PeakProcessors, all.Figures)
	return err
}

func shareText(share float64) string {
	if share > 1 {
		return fmt.Sprintf("%.0f %%: too much for one such machine", share*100)
	}
	return fmt.Sprintf("%.2g %%", share*100)
}

// sizeText returns a size as people say it.
func sizeText(bytes float64) string {
	for _, unit := range []string{"B", "KB", "MB", "GB", "TB"} {
		if bytes < 1000 || unit == "TB" {
			return fmt.Sprintf("%.3g %s", bytes, unit)
		}
		bytes /= 1000
	}
	return ""
}
