package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// doubtAges are the upper bounds of the age classes in which records in doubt are counted; "older"
// is the rest.
var doubtAges = []struct {
	name string
	most time.Duration
}{{"5m", 5 * time.Minute}, {"1h", time.Hour}, {"24h", 24 * time.Hour}}

// mostDoubts is the most records that are counted, so that a collection does not read through a
// store that is full of them.
const mostDoubts = 10_000

// doubtCollector counts the records in doubt that are in the store now, by age: those of all
// processes, also if a process died before it reported one. While the store does not answer, it
// shows the last figures and how old they are: an alert must not end because no process can count.
type doubtCollector struct {
	store  storeapi.Lister
	check  storeCheck
	count  *prometheus.Desc
	causes *prometheus.Desc
	oldest *prometheus.Desc
	stale  *prometheus.Desc
	failed prometheus.Counter

	mu        sync.Mutex
	countedAt time.Time      // when they were last counted, or when the collector was made
	ages      map[string]int // nil: they were never counted
	byCause   map[string]int
	longest   time.Duration // at countedAt
}

// WatchInDoubt adds metrics of the records in doubt in s, if s can list its records.
func (m *Monitor) WatchInDoubt(s storeapi.Store) {
	lister, ok := s.(storeapi.Lister)
	if !ok {
		return
	}
	d := &doubtCollector{
		store: lister, countedAt: time.Now(),
		count:  prometheus.NewDesc("retrysafe_doubts", "Records in doubt, by age (less than): somebody has to resolve them. Counted up to 10000.", []string{"age"}, nil),
		causes: prometheus.NewDesc("retrysafe_doubts_by_cause", "Records in doubt, by cause (crash: their process died, or was cut off). Counted up to 10000.", []string{"cause"}, nil),
		oldest: prometheus.NewDesc("retrysafe_oldest_doubt_seconds", "Age of the oldest record in doubt.", nil, nil),
		stale:  prometheus.NewDesc("retrysafe_doubts_stale_seconds", "Time since the records in doubt were last counted: so old are the other figures.", nil, nil),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "retrysafe_doubts_errors_total", Help: "Times when the store could not be asked what is in doubt."}),
	}
	d.check.call = d.countRecords
	m.registry.MustRegister(d)
}

// Describe implements [prometheus.Collector].
func (d *doubtCollector) Describe(to chan<- *prometheus.Desc) {
	to <- d.count
	to <- d.causes
	to <- d.oldest
	to <- d.stale
	d.failed.Describe(to)
}

// Collect implements [prometheus.Collector]. It asks the store at most every ten seconds.
func (d *doubtCollector) Collect(to chan<- prometheus.Metric) {
	d.check.await()
	d.failed.Collect(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	since := time.Since(d.countedAt)
	to <- prometheus.MustNewConstMetric(d.stale, prometheus.GaugeValue, since.Seconds())
	if d.ages == nil {
		return // not known: no figure is better than a wrong one
	}
	for age, n := range d.ages {
		to <- prometheus.MustNewConstMetric(d.count, prometheus.GaugeValue, float64(n), age)
	}
	for cause, n := range d.byCause {
		to <- prometheus.MustNewConstMetric(d.causes, prometheus.GaugeValue, float64(n), cause)
	}
	oldest := d.longest
	if oldest > 0 {
		oldest += since // a record that cannot be read grows older all the same
	}
	to <- prometheus.MustNewConstMetric(d.oldest, prometheus.GaugeValue, oldest.Seconds())
}

func (d *doubtCollector) countRecords(ctx context.Context) {
	ages, causes, longest := map[string]int{"older": 0}, map[string]int{storeapi.CauseCrash: 0}, time.Duration(0)
	for _, a := range doubtAges {
		ages[a.name] = 0
	}
	err := admin.EachInDoubt(ctx, d.store, mostDoubts, func(cause string, age time.Duration) {
		longest = max(longest, age)
		ages[ageName(age)]++
		causes[causeName(cause, causes)]++
	})
	if err != nil {
		d.failed.Inc()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ages, d.byCause, d.longest, d.countedAt = ages, causes, longest, time.Now()
}

// mostCauses is the most causes that are told apart, since an error can name one of its own.
const mostCauses = 50

func causeName(cause string, known map[string]int) string {
	if _, ok := known[cause]; !ok && len(known) >= mostCauses {
		return "other"
	}
	return cause
}

func ageName(age time.Duration) string {
	for _, a := range doubtAges {
		if age < a.most {
			return a.name
		}
	}
	return "older"
}
