package brokers_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/otelidem"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// tracedShop is a shop whose parts report to one collector: a gateway, a service with a database, a
// relay, and a consumer with the same database.
type tracedShop struct {
	spans    *tracetest.InMemoryExporter
	store    *sqlstore.Store
	box      *outbox.Outbox
	relay    *outbox.Relay
	consumed chan mqidem.Outcome
}

// newTelemetry returns a telemetry of one of the processes.
func (s *tracedShop) newTelemetry(t *testing.T) *otelidem.Telemetry {
	t.Helper()
	tel, err := otelidem.New(&otelidem.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
	})
	assert.NoError(t, err, "telemetry")
	return tel
}

// newEngine returns an engine of a process.
func (s *tracedShop) newEngine(t *testing.T, tel *otelidem.Telemetry) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s.store, &retrysafe.Options{
		Namespace: "shop", Secret: []byte("a secret of tests"), Sweep: -1, Logger: quiet, Trace: tel.Trace(),
	})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// openShop creates the tables.
func openShop(t *testing.T) *tracedShop {
	t.Helper()
	s := &tracedShop{spans: tracetest.NewInMemoryExporter(), consumed: make(chan mqidem.Outcome, 10)}
	db, err := sql.Open("pgx", servertest.StartPostgres(t).URL)
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	s.store, err = sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Logger: quiet})
	assert.NoError(t, err, "store")
	assert.NoError(t, s.store.Migrate(t.Context()), "tables of the store")
	s.box, err = outbox.New(db, outbox.PostgreSQL, &outbox.Options{Logger: quiet, Prepare: s.newTelemetry(t).Prepare})
	assert.NoError(t, err, "outbox")
	assert.NoError(t, s.box.Migrate(t.Context()), "tables of the outbox")
	_, err = db.ExecContext(t.Context(), "CREATE TABLE orders (item text NOT NULL); CREATE TABLE stock (item text NOT NULL)")
	assert.NoError(t, err, "tables")
	return s
}

// startService returns the address of the service: it stores an order and announces it in one
// transaction.
func (s *tracedShop) startService(t *testing.T) string {
	t.Helper()
	tel := s.newTelemetry(t)
	e := s.newEngine(t, tel)
	guard := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}})
	server := httptest.NewServer(tel.Handler(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, _ := retrysafe.AttemptFrom(r.Context())
		_, err := retrysafe.DoTx(r.Context(), e, s.store, a.Key(), func(ctx context.Context, tx *sql.Tx) (string, error) {
			if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('body-secret')"); err != nil {
				return "", err
			}
			return "answer-secret", s.box.Add(ctx, dbtx.SQL(tx, outbox.PostgreSQL), outbox.Message{ID: "id-secret", Topic: queue, Payload: []byte("body-secret")})
		})
		if err != nil {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		s.relay.Wake()
		_, _ = w.Write([]byte("answer-secret"))
	}))))
	t.Cleanup(server.Close)
	return server.URL
}

// startGateway returns the address of a gateway before the service.
func (s *tracedShop) startGateway(t *testing.T, upstream string) string {
	t.Helper()
	tel := s.newTelemetry(t)
	g, err := gateway.New(s.newEngine(t, tel), &gateway.Options{
		Upstreams: []string{upstream}, Continue: tel.Continue, Propagate: tel.Propagate, Logger: quiet,
		Guard: httpidem.Options{Tenant: httpidem.Global},
	})
	assert.NoError(t, err, "gateway")
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		_ = g.Close()
	})
	return server.URL
}

// publishAndConsume publishes messages to a broker and consumes them, until the test ends.
func (s *tracedShop) publishAndConsume(t *testing.T) {
	t.Helper()
	k := kinds["NATS"]
	b := k.start(t)
	src, err := k.open(t.Context(), b.url)
	assert.NoError(t, err, "open")
	pub, err := k.publisher(t.Context(), b.url)
	assert.NoError(t, err, "publisher")
	s.relay, err = outbox.NewRelay(s.box, s.newTelemetry(t).Publisher(pub), nil)
	assert.NoError(t, err, "relay")
	tel := s.newTelemetry(t)
	work := mqidem.OnceTx(s.newEngine(t, tel), s.store, "stock", func(ctx context.Context, tx *sql.Tx, _ *mqidem.Message) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO stock VALUES ('tea')")
		return err
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- s.relay.Run(ctx) }()
	go func() {
		ended <- mqidem.Consume(ctx, src, tel.Consumer("nats", work), &mqidem.Options{Logger: quiet, HoldsFor: time.Hour, OnOutcome: func(_ context.Context, o mqidem.Outcome) { s.consumed <- o }})
	}()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended, "end")
		assert.NoError(t, <-ended, "end")
		_ = src.Close()
	})
}

// TestOneTrace: a payment through the gateway, the service's middleware, its transaction, the
// outbox, the broker and the consumer is one tree of spans. A duplicate of it has a trace of its
// own, with a link to the span of the gateway that made the answer.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.publishAndConsume(t)
	client := s.newTelemetry(t)
	base := s.startGateway(t, s.startService(t))
	for range 2 {
		postOrder(t, &httpidem.Transport{Base: client.Transport(nil)}, base+"/orders")
	}
	select {
	case o := <-s.consumed:
		assert.Equal(t, o.What, mqidem.OutcomeDone, "the message: %v", o.Err)
	case <-time.After(30 * time.Second):
		t.Fatal("the message was not consumed")
	}
	byID := map[trace.SpanID]tracetest.SpanStub{}
	var names []string
	all := s.spans.GetSpans()
	for _, span := range all {
		byID[span.SpanContext.SpanID()] = span
	}
	for _, span := range all {
		path := span.Name
		for at, ok := byID[span.Parent.SpanID()]; ok; at, ok = byID[at.Parent.SpanID()] {
			path = at.Name + " > " + path
		}
		for _, l := range span.Links {
			path += " (link to " + byID[l.SpanContext.SpanID()].Name + ")"
		}
		names = append(names, path)
	}
	slices.Sort(names)
	const gw, tx = "POST > retrysafe gw", " > retrysafe http > retrysafe tx"
	create := gw + tx + " > create work"
	want := []string{
		"POST", "POST", gw, gw + " (link to retrysafe gw)", gw + " > retrysafe http", gw + tx, create,
		create + " > process work (link to create work)", create + " > process work > retrysafe tx", "send (link to create work)",
	}
	slices.Sort(want)
	assert.Equal(t, strings.Join(names, "\n"), strings.Join(want, "\n"), "spans")
	s.oneTree(t, all)
	assert.True(t, !strings.Contains(fmt.Sprintf("%+v", all), "secret"), "no span shows a key or a body")
}

// oneTree checks that everything but the duplicate and the relay is in one trace.
func (s *tracedShop) oneTree(t *testing.T, all tracetest.SpanStubs) {
	t.Helper()
	count := map[trace.TraceID]int{}
	for _, span := range all {
		count[span.SpanContext.TraceID()]++
	}
	var sizes []int
	for _, n := range count {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	assert.Equal(t, fmt.Sprint(sizes), "[1 2 7]", "spans of each trace: the relay's, the duplicate's, and the tree")
}

func postOrder(t *testing.T, client http.RoundTripper, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("body-secret"))
	assert.NoError(t, err, "request")
	r.Header.Set("Idempotency-Key", "key-secret-0123456789-0123456789")
	resp, err := client.RoundTrip(r)
	assert.NoError(t, err, "round trip")
	assert.NoError(t, resp.Body.Close(), "close")
	assert.Equal(t, resp.StatusCode, http.StatusOK, "status")
}
