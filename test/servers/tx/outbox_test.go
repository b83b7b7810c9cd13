package tx_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestOutboxTx: a message is in the outbox if and only if its transaction was committed. With DoTx,
// record, effect and message are one commit.
func TestOutboxTx(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		box := newBox(t, a, nil)
		rows := func() int { return sqltest.Count(t, b.DB, "retrysafe_outbox") }
		tx, err := a.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		assert.NoError(t, box.Add(t.Context(), dbtx.SQL(tx, box.Dialect()), outbox.Message{Topic: "orders"}), "Add")
		assert.NoError(t, tx.Rollback(), "rollback")
		assert.Equal(t, rows(), 0, "rows after a rollback")
		addMessages(t, a, box, outbox.Message{ID: "one", Topic: "orders"})
		assert.Equal(t, rows(), 1, "rows after a commit")

		refused := errors.New("out of stock")
		for _, c := range []struct {
			customer string
			result   error
			rows     int
		}{{"ada", refused, 1}, {"bob", retrysafe.Permanent("no-credit", refused), 1}, {"ada", nil, 2}, {"ada", nil, 2}} {
			_, err := retrysafe.DoTx(t.Context(), a.Engine, a.Store, teststores.OrderKey(c.customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
				id, err := shops.Insert(ctx, tx, c.customer)
				return id, errors.Join(err, box.Add(ctx, dbtx.SQL(tx, box.Dialect()), outbox.Message{Topic: "orders", Key: c.customer}), c.result)
			})
			assert.Equal(t, err != nil, c.result != nil, "DoTx: %v", err)
			assert.Equal(t, rows(), c.rows, "rows after %s, %v", c.customer, c.result)
		}
		assert.Equal(t, a.Orders(t, "ada"), 1, "orders")

		tx, err = a.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		in := dbtx.SQL(tx, box.Dialect())
		assert.ErrorIs(t, box.Add(t.Context(), in, outbox.Message{ID: "one", Topic: "orders"}), outbox.ErrDuplicate, "the same id again")
		assert.NoError(t, box.Add(t.Context(), in, outbox.Message{ID: "two", Topic: "orders"}), "the transaction goes on")
		assert.NoError(t, tx.Commit(), "commit")
		assert.Equal(t, rows(), 3, "rows with a duplicate")
	})
}

// TestOutboxOtherLibraries: in pgx and GORM transactions.
func TestOutboxOtherLibraries(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		s := newPgxShop(t, servers.StartPostgres(t).URL())
		box := newBox(t, s.Shop, nil)
		_, err := s.order(t.Context(), "ada", s.db, func(ctx context.Context, tx pgx.Tx) error {
			return box.Add(ctx, pgxidem.Tx(tx), outbox.Message{Topic: "orders", Key: "ada", Headers: map[string]string{"a": "b"}, Payload: []byte{0, 255}})
		})
		assert.NoError(t, err, "DoTx")
		b := new(broker)
		runRelay(t, box, b, nil)
		awaitPublished(t, func() bool { return len(b.idsOf("ada")) == 1 }, "it is published")
	})
	t.Run("GORM", func(t *testing.T) {
		t.Parallel()
		s := shops.OnMySQL(servers.StartMySQL(t).DSN()).Shop(t)
		box := newBox(t, s, nil)
		db, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: s.DB}), &gorm.Config{Logger: logger.Discard})
		assert.NoError(t, err, "gorm.Open")
		for _, result := range []error{nil, errors.New("no")} {
			err = db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
				err := box.Add(t.Context(), dbtx.SQL(tx.Statement.ConnPool, dbtx.MySQL), outbox.Message{Topic: "orders"})
				return errors.Join(err, result)
			})
			assert.ErrorIs(t, err, result, "the transaction")
			assert.Equal(t, countPending(t, box), 1, "messages")
		}
	})
}

// TestOutboxPublishes: what was added is published unchanged, in the order of its key, once if
// nothing fails, and then removed.
func TestOutboxPublishes(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		box := newBox(t, a, nil)
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		first := outbox.Message{
			ID: "id-1", Topic: "orders.größe", Key: string(every), ContentType: "application/json", Payload: bytes.Repeat(every, 1<<12),
			Headers: map[string]string{"trace": "a\\b\"c", "empty": ""},
		}
		addMessages(t, a, box, first)
		const keys, each = 40, 4
		for n := range each {
			for k := range keys {
				addMessages(t, a, box, outbox.Message{ID: fmt.Sprintf("%d-%d", k, n), Topic: "orders", Key: fmt.Sprint("key ", k)})
			}
		}
		for _, p := range map[string]func(*broker) outbox.Publisher{
			"together":   func(b *broker) outbox.Publisher { return b },
			"one by one": func(b *broker) outbox.Publisher { return oneByOne(b) },
		} {
			got := new(broker)
			_, stop := runRelay(t, newBox(t, b, nil), p(got), &outbox.RelayOptions{Lease: time.Minute})
			awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "all are published")
			assert.NoError(t, stop(), "Run")
			for k := range keys {
				ids := got.idsOf(fmt.Sprint("key ", k))
				assert.Equal(t, len(ids), each, "messages of key %d: %q", k, ids)
				for n, id := range ids {
					assert.Equal(t, id, fmt.Sprintf("%d-%d", k, n), "message %d of key %d", n, k)
				}
			}
			assert.Equal(t, sqltest.Count(t, b.DB, "retrysafe_outbox"), 0, "rows that are left")
			i := slices.IndexFunc(got.got, func(m outbox.Outgoing) bool { return m.ID == first.ID })
			m := got.got[i]
			assert.Equal(t, fmt.Sprint(m.Message), fmt.Sprint(first), "the message")
			assert.True(t, m.Attempt == 1 && m.Fence > 0 && time.Since(m.Added).Abs() < time.Minute, "what is told with it: %d, %d, %v", m.Attempt, m.Fence, m.Added)
			addMessages(t, a, box, first)
			for n := range each {
				for k := range keys {
					addMessages(t, a, box, outbox.Message{ID: fmt.Sprintf("%d-%d", k, n), Topic: "orders", Key: fmt.Sprint("key ", k)})
				}
			}
		}
	})
}

func oneByOne(b *broker) outbox.Publisher {
	return outbox.OneByOne(func(ctx context.Context, m outbox.Outgoing) error { return b.Publish(ctx, []outbox.Outgoing{m})[0] })
}

// TestOutboxLateCommit: a transaction that stays open while later ones commit loses no message,
// since there is no cursor that could have passed it.
func TestOutboxLateCommit(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		box := newBox(t, s, nil)
		got := new(broker)
		runRelay(t, box, got, nil)
		late, err := s.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		assert.NoError(t, box.Add(t.Context(), dbtx.SQL(late, box.Dialect()), outbox.Message{ID: "late", Topic: "orders", Key: "ada"}), "Add")
		for i := range 5 {
			addMessages(t, s, box, outbox.Message{ID: fmt.Sprintf("early-%d", i), Topic: "orders", Key: "ada"})
		}
		awaitPublished(t, func() bool { return len(got.idsOf("")) == 5 }, "those that were committed are published")
		assert.NoError(t, late.Commit(), "commit")
		awaitPublished(t, func() bool { return slices.Contains(got.idsOf(""), "late") }, "the late one is published")
		assert.Equal(t, len(got.idsOf("")), 6, "messages: %q", got.idsOf(""))
	})
}

// TestOutboxKeep: a published message stays for as long as Keep says, and its id is refused
// meanwhile.
func TestOutboxKeep(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		got := new(broker)
		box := newBox(t, a, &outbox.Options{Keep: time.Hour})
		addMessages(t, a, box, outbox.Message{ID: "one", Topic: "orders"})
		_, stop := runRelay(t, box, got, nil)
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "it is published")
		assert.Equal(t, sqltest.Count(t, a.DB, "retrysafe_outbox WHERE state = 2"), 1, "rows that are kept")
		var err error
		waits.Until(t.Context(), func() bool { // SQLite has one writer, which may be the relay
			err = trySend(t.Context(), a.DB, box, outbox.Message{ID: "one", Topic: "orders"})
			return !strings.Contains(fmt.Sprint(err), "SQLITE_BUSY")
		})
		assert.ErrorIs(t, err, outbox.ErrDuplicate, "the same id")
		assert.NoError(t, stop(), "Run")
		many := make([]outbox.Message, 2500) // more than one removal deletes
		for i := range many {
			many[i] = outbox.Message{ID: fmt.Sprint("kept-", i), Topic: "orders", Key: fmt.Sprint(i)}
		}
		addMessages(t, a, box, many...)
		sqltest.Exec(t, a.DB, "UPDATE retrysafe_outbox SET state = 2")
		keep := time.Duration(0) // also by relays that keep nothing
		if a.Store.Dialect() == dbtx.PostgreSQL {
			keep = time.Microsecond
		}
		runRelay(t, newBox(t, a, &outbox.Options{Keep: keep}), got, nil)
		awaitPublished(t, func() bool { return sqltest.Count(t, a.DB, "retrysafe_outbox") == 0 }, "it is removed after its time")
		assert.Equal(t, strings.Join(got.idsOf(""), " "), "one", "what was published")
	})
}

// TestOutboxHeldUpKey: a long queue of a key whose first message is a dead letter does not move and
// does not block others. Later it continues in order.
func TestOutboxHeldUpKey(t *testing.T) {
	t.Parallel()
	shops.EachKind(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		got := new(broker)
		got.setRefused(func(m outbox.Outgoing) error {
			if m.ID == "first" {
				return outbox.Permanent(errors.New("nobody wants it"))
			}
			return nil
		})
		box := newBox(t, a, nil)
		const queue, others = 500, 1600
		addMessages(t, a, box, outbox.Message{ID: "first", Topic: "orders", Key: "held"})
		_, stop := runRelay(t, box, got, &outbox.RelayOptions{Batch: 10})
		awaitPublished(t, func() bool { s, err := box.Stats(t.Context()); return err == nil && s.Dead == 1 }, "the first is dead")
		var all []outbox.Message
		for i := range queue {
			all = append(all, outbox.Message{ID: fmt.Sprint("held-", i), Topic: "orders", Key: "held"})
		}
		for i := range others {
			all = append(all, outbox.Message{ID: fmt.Sprint("other-", i), Topic: "orders", Key: fmt.Sprint(i % 400)})
		}
		addMessages(t, a, box, all...)
		awaitPublished(t, func() bool { return countPending(t, box) == queue }, "the others are published")
		for i := range 400 {
			var want []string
			for n := i; n < others; n += 400 {
				want = append(want, fmt.Sprint("other-", n))
			}
			once, _ := removeRepeats(got.idsOf(fmt.Sprint(i)))
			assert.Equal(t, strings.Join(once, " "), strings.Join(want, " "), "the order of key %d", i)
		}
		got.setRefused(nil)
		_, err := box.Redrive(t.Context(), "first")
		assert.NoError(t, err, "redrive")
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "all are published")
		want := []string{"first"}
		for i := range queue {
			want = append(want, fmt.Sprint("held-", i))
		}
		once, _ := removeRepeats(got.idsOf("held"))
		assert.Equal(t, strings.Join(once, " "), strings.Join(want, " "), "the order of the key that was held up")
		assert.NoError(t, stop(), "Run")
	})
}

// TestOutboxMigrate: several processes may migrate at once. Older and newer programs say what to
// do, and so does a relay without tables.
func TestOutboxMigrate(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		box, err := outbox.New(a.DB, a.Store.Dialect(), &outbox.Options{Table: "Box_2"})
		assert.NoError(t, err, "an outbox")
		relay, err := outbox.NewRelay(box, new(broker), nil)
		assert.NoError(t, err, "a relay")
		assert.Contains(t, fmt.Sprint(relay.Run(t.Context())), "call Migrate", "a relay without tables")
		assert.Contains(t, fmt.Sprint(trySend(t.Context(), a.DB, box, outbox.Message{Topic: "orders"})), "call Migrate", "Add without tables")
		var all sync.WaitGroup
		for i := range 8 {
			db := a.DB
			if i%2 == 1 {
				db = b.DB
			}
			all.Go(func() {
				box, err := outbox.New(db, a.Store.Dialect(), &outbox.Options{Table: "Box_2"})
				if err = errors.Join(err, box.Migrate(t.Context())); err != nil {
					t.Errorf("Migrate: %v", err)
				}
			})
		}
		all.Wait()
		addMessages(t, a, box, outbox.Message{Topic: "orders"})
		name := `"Box_2_meta"`
		if a.Store.Dialect() == outbox.MySQL {
			name = "`Box_2_meta`"
			// As left by a process that was killed before the last statement.
			sqltest.Exec(t, a.DB, "DELETE FROM `Box_2_meta`")
			assert.NoError(t, box.Migrate(t.Context()), "Migrate goes on")
		}
		assert.Equal(t, countPending(t, box), 1, "messages")
		sqltest.Exec(t, a.DB, "UPDATE "+name+" SET version = 2")
		assert.Contains(t, fmt.Sprint(box.Migrate(t.Context())), "run the newer program", "Migrate of an older program")
		assert.Contains(t, fmt.Sprint(relay.Run(t.Context())), "run the newer program", "a relay of an older program")
	})
}
