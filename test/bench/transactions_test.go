package bench_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

const mailTopic = "mails"

// mail is what is enqueued: a job of River, and a message of the outbox.
type mail struct {
	Order string `json:"order"`
	Text  string `json:"text"`
}

func (mail) Kind() string { return "mail" }

// durablePostgres returns a pool of a new server that writes to its disk, and the pool for
// database/sql.
func durablePostgres(b *testing.B) (*pgxpool.Pool, *sql.DB) {
	b.Helper()
	server := servertest.StartPostgres(b, "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on")
	pool, err := pgxpool.New(b.Context(), server.URL)
	assert.NoError(b, err, "a pool")
	b.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	b.Cleanup(func() { _ = db.Close() })
	return pool, db
}

func newOutbox(b *testing.B, db *sql.DB) *outbox.Outbox {
	b.Helper()
	box, err := outbox.New(db, outbox.PostgreSQL, &outbox.Options{Logger: noLog})
	assert.NoError(b, err, "an outbox")
	assert.NoError(b, box.Migrate(b.Context()), "Migrate")
	return box
}

// enqueueByRiver inserts a unique job of River in a transaction.
func enqueueByRiver(b *testing.B, pool *pgxpool.Pool) func(ctx context.Context, id string) error {
	b.Helper()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: noLog})
	assert.NoError(b, err, "River's migrations")
	_, err = migrator.Migrate(b.Context(), rivermigrate.DirectionUp, nil)
	assert.NoError(b, err, "River's tables")
	client, err := river.NewClient(driver, &river.Config{Logger: noLog})
	assert.NoError(b, err, "River")
	return func(ctx context.Context, id string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := client.InsertTx(ctx, tx, mail{id, "thank you"}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
			return err
		})
	}
}

// enqueueByDoTx adds a message to the outbox in a transaction of DoTx.
func enqueueByDoTx(b *testing.B, pool *pgxpool.Pool, db *sql.DB) func(ctx context.Context, id string) error {
	b.Helper()
	store, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Logger: noLog})
	assert.NoError(b, err, "a store")
	assert.NoError(b, store.Migrate(b.Context()), "Migrate")
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1, Logger: noLog})
	b.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	box, in := newOutbox(b, db), pgxidem.New(store, pool)
	return func(ctx context.Context, id string) error {
		_, err := retrysafe.DoTx(ctx, e, in, retrysafe.Key{Operation: mail{}.Kind(), ID: id}, func(ctx context.Context, tx pgx.Tx) (string, error) {
			return "enqueued", box.Add(ctx, pgxidem.Tx(tx), outbox.Message{Topic: mailTopic, Key: id, Payload: []byte(`{"order":"` + id + `","text":"thank you"}`)})
		})
		return err
	}
}

// BenchmarkEnqueue enqueues work once for each order, by one caller, with River's unique jobs and
// with DoTx and the outbox, in turn; then everything once more, as duplicates.
func BenchmarkEnqueue(b *testing.B) {
	const rounds = 5
	pool, db := durablePostgres(b)
	ways := map[string]func(context.Context, string) error{"river": enqueueByRiver(b, pool), "retrysafe": enqueueByDoTx(b, pool, db)}
	each, took := max(1, b.N/rounds), map[string][]float64{}
	for round := range rounds {
		for name, enqueue := range ways {
			for _, what := range []string{"new", "duplicate"} {
				begun := time.Now()
				for i := range each {
					assert.NoError(b, enqueue(b.Context(), fmt.Sprintf("order-%d-%d", round, i)), "%s", name)
				}
				took[name+"-"+what] = append(took[name+"-"+what], float64(time.Since(begun).Microseconds())/float64(each))
			}
		}
	}
	for table, n := range map[string]int{"river_job": rounds * each, outbox.DefaultTable: rounds * each} {
		var rows int
		assert.NoError(b, db.QueryRowContext(b.Context(), "SELECT count(*) FROM "+table).Scan(&rows), "count %s", table)
		assert.Equal(b, rows, n, "rows of %s", table)
	}
	b.ReportMetric(0, "ns/op")
	for name, us := range took {
		b.ReportMetric(slices.Sorted(slices.Values(us))[rounds/2], name+"-µs")
	}
}

// published counts messages. After the last one it notes the time, and ends the context.
type published struct {
	left atomic.Int64
	last time.Time
	done func()
}

func (p *published) count(n int) {
	if p.left.Add(int64(-n)) == 0 {
		p.last = time.Now()
		p.done()
	}
}

// Publish implements Watermill's publisher.
func (p *published) Publish(_ string, all ...*message.Message) error {
	p.count(len(all))
	return nil
}

func (p *published) Close() error { return nil }

// outboxPublisher is a publisher of an outbox, which confirms at once.
type outboxPublisher struct{ *published }

func (p outboxPublisher) Publish(_ context.Context, batch []outbox.Outgoing) []error {
	p.count(len(batch))
	return make([]error, len(batch))
}

// outboxWay adds messages to an outbox, a transaction each, and then publishes all of them.
type outboxWay struct {
	add func(ctx context.Context, tx *sql.Tx, id string, payload []byte) error
	run func(ctx context.Context, to *published) error
}

func ourOutbox(b *testing.B, db *sql.DB) outboxWay {
	b.Helper()
	box := newOutbox(b, db)
	return outboxWay{
		func(ctx context.Context, tx *sql.Tx, id string, payload []byte) error {
			return box.Add(ctx, dbtx.SQL(tx, box.Dialect()), outbox.Message{Topic: mailTopic, Key: id, Payload: payload})
		},
		func(ctx context.Context, to *published) error {
			relay, err := outbox.NewRelay(box, outboxPublisher{to}, nil)
			if err != nil {
				return err
			}
			return relay.Run(ctx)
		},
	}
}

// watermillOutbox is Watermill's: a publisher on a transaction, and a forwarder.
func watermillOutbox(b *testing.B, db *sql.DB) outboxWay {
	b.Helper()
	const topic = "forwarded"
	schema := watermillsql.DefaultPostgreSQLSchema{}
	subscriber, err := watermillsql.NewSubscriber(db, watermillsql.SubscriberConfig{
		SchemaAdapter: schema, OffsetsAdapter: watermillsql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true, PollInterval: 10 * time.Millisecond,
	}, watermill.NopLogger{})
	assert.NoError(b, err, "Watermill's subscriber")
	assert.NoError(b, subscriber.SubscribeInitialize(topic), "Watermill's tables")
	return outboxWay{
		func(_ context.Context, tx *sql.Tx, id string, payload []byte) error {
			p, err := watermillsql.NewPublisher(tx, watermillsql.PublisherConfig{SchemaAdapter: schema}, watermill.NopLogger{})
			if err != nil {
				return err
			}
			return forwarder.NewPublisher(p, forwarder.PublisherConfig{ForwarderTopic: topic}).Publish(mailTopic, message.NewMessage(id, payload))
		},
		func(ctx context.Context, to *published) error {
			f, err := forwarder.NewForwarder(subscriber, to, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: topic})
			if err != nil {
				return err
			}
			return f.Run(ctx)
		},
	}
}

// BenchmarkOutbox adds messages by one caller, a transaction each, and then publishes all of them
// to a publisher that confirms at once: with our outbox and with Watermill's, each on its own
// server.
func BenchmarkOutbox(b *testing.B) {
	for name, open := range map[string]func(*testing.B, *sql.DB) outboxWay{"retrysafe": ourOutbox, "watermill": watermillOutbox} {
		b.Run(name, func(b *testing.B) {
			_, db := durablePostgres(b)
			way := open(b, db)
			payload := []byte(`{"text":"` + strings.Repeat(rand.Text(), 7) + `"}`)
			begun := time.Now()
			for i := range b.N {
				tx, err := db.BeginTx(b.Context(), nil)
				assert.NoError(b, err, "begin")
				assert.NoError(b, way.add(b.Context(), tx, fmt.Sprint("order-", i), payload), "add")
				assert.NoError(b, tx.Commit(), "commit")
			}
			added := time.Since(begun)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			to := &published{done: cancel}
			to.left.Store(int64(b.N))
			begun = time.Now()
			assert.NoError(b, way.run(ctx, to), "run")
			assert.Equal(b, to.left.Load(), int64(0), "messages that are left")
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(added.Microseconds())/float64(b.N), "add-µs")
			b.ReportMetric(float64(b.N)/to.last.Sub(begun).Seconds(), "messages/s")
		})
	}
}
