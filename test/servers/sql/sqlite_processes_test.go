package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

func init() {
	child.Parts["sqlite order"] = playOrder
	child.Parts["sqlite orders"] = playOrders
	child.Parts["sqlite claims"] = playClaims
}

// childShop opens a shop in a child, on a file that the test has prepared. The fault may be nil.
func childShop(path string, f sqltest.Fault) (*shops.Shop, error) {
	inner, err := sql.Open("sqlite", sqltest.SQLiteDSN(path))
	if err != nil {
		return nil, err
	}
	db, set := sqltest.FaultyDB(inner.Driver(), sqltest.SQLiteDSN(path))
	store, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{LockWait: time.Minute})
	if err != nil {
		return nil, err
	}
	set(f)
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1})
	return &shops.Shop{Store: store, Engine: engine, DB: db}, nil
}

// playOrder makes an order and is killed before or after a step of it. Arguments: file, customer,
// step, "before" or "after".
func playOrder(args []string) error {
	path, customer, point, after := args[0], args[1], args[2], args[3] == "after"
	s, err := childShop(path, func(step string, run func() error) error {
		if !strings.HasPrefix(step, point) {
			return run()
		}
		if after {
			_ = run()
		}
		child.Die()
		return nil
	})
	if err != nil {
		return err
	}
	_, err = s.Order(context.Background(), customer)
	return errors.Join(errors.New("the point was not reached"), err)
}

// TestSQLiteKilledAtAPoint: a process that dies leaves both effect and record, or neither, and its
// key is free or answered.
func TestSQLiteKilledAtAPoint(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	first := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil)
	for i, c := range []struct {
		step, when string
		kept       bool
	}{
		{"begin", "after", false},
		{`INSERT INTO "retrysafe_records"`, "after", false}, // claimed
		{"INSERT INTO orders", "after", false},              // the effect
		{`UPDATE "retrysafe_records"`, "after", false},      // completed
		{"commit", "before", false},
		{"commit", "after", true},
	} {
		if i%2 == 1 {
			// So that the next process must recover the file, and not only the rest of it.
			_ = first.DB.Close()
		}
		customer := c.when + " " + c.step
		dead := child.Start(t, "sqlite order", path, customer, c.step, c.when)
		assert.True(t, dead.Wait(t), "the child was killed %s %s", c.when, c.step)
		s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil)
		want := 0
		if c.kept {
			want = 1
		}
		assert.Equal(t, s.Orders(t, customer), want, "orders of a process that was killed %s", customer)
		assert.Equal(t, s.Record(t, customer).State == retrysafe.StateCompleted, c.kept, "the record of a process that was killed %s", customer)
		s.WantOnce(t, customer, "a kill "+customer)
		first = s
	}
}

// playOrders makes orders until it is killed, and reports each that was acknowledged. Arguments:
// file, prefix of the customers.
func playOrders(args []string) error {
	s, err := childShop(args[0], nil)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		customer := args[1] + strconv.Itoa(i)
		if _, err := s.Order(context.Background(), customer); err != nil {
			return err
		}
		fmt.Println(customer)
	}
}

// TestSQLiteKilledAnywhere: what was acknowledged is there after a kill, and no transaction is
// there in part.
func TestSQLiteKilledAnywhere(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil)
	for round := range 3 {
		prefix := fmt.Sprint("round ", round, " customer ")
		c := child.Start(t, "sqlite orders", path, prefix)
		var acknowledged []string
		for range 5 + 4*round {
			customer, ok := c.Read()
			assert.True(t, ok, "the child goes on: %s", c.Stderr.String())
			acknowledged = append(acknowledged, customer)
		}
		assert.NoError(t, c.Cmd.Process.Kill(), "kill the child")
		for customer, ok := c.Read(); ok; customer, ok = c.Read() {
			acknowledged = append(acknowledged, customer) // it was in flight
		}
		assert.True(t, c.Wait(t), "the child was killed")
		for _, customer := range acknowledged {
			assert.Equal(t, s.Orders(t, customer), 1, "orders of %s, which was acknowledged", customer)
		}
		assert.Equal(t, sqltest.Count(t, s.DB, "orders"), sqltest.Count(t, s.DB, "retrysafe_records"), "effects and records after a kill")
		next := prefix + strconv.Itoa(len(acknowledged))
		s.WantOnce(t, next, "a kill during its transaction")
	}
	assert.Equal(t, sqltest.Count(t, s.DB, "retrysafe_records WHERE state <> 3"), 0, "records that are not completed")
}

// playClaims waits for a line, and then claims keys and makes orders that others claim too.
// Arguments: file, how many.
func playClaims(args []string) error {
	s, err := childShop(args[0], nil)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := s.Store.Lookup(ctx, teststores.Request("none").Key); err != nil {
		// the file is open
		return err
	}
	fmt.Println("ready")
	var line string
	if _, err := fmt.Scanln(&line); err != nil {
		return err
	}
	for i := range n {
		_, err := retrysafe.Run(ctx, s.Engine, teststores.OrderKey(fmt.Sprint("claim ", i)), func(context.Context) error {
			fmt.Println("won", i)
			return nil
		})
		if err != nil && !errors.Is(err, retrysafe.ErrInProgress) {
			return err
		}
		if _, err := s.Order(ctx, fmt.Sprint("customer ", i)); err != nil {
			return err
		}
	}
	return s.Engine.Shutdown(ctx)
}

// TestSQLiteTwoProcesses: of several processes on one file exactly one acquires each key, and each
// order has one effect.
func TestSQLiteTwoProcesses(t *testing.T) {
	t.Parallel()
	const keys = 20
	path := sqltest.NewFile(t)
	s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil)
	all := []*child.Process{child.Start(t, "sqlite claims", path, strconv.Itoa(keys)), child.Start(t, "sqlite claims", path, strconv.Itoa(keys))}
	for _, c := range all {
		line, ok := c.Read()
		assert.True(t, ok && line == "ready", "the child is ready: %q %s", line, c.Stderr.String())
	}
	wins := map[string]int{}
	var mu sync.Mutex
	var readers sync.WaitGroup
	for _, c := range all {
		_, err := fmt.Fprintln(c.Stdin, "go")
		assert.NoError(t, err, "tell the child to go on")
		readers.Go(func() {
			for line, ok := c.Read(); ok; line, ok = c.Read() {
				mu.Lock()
				wins[line]++
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	for _, c := range all {
		assert.True(t, !c.Wait(t), "the child ends by itself")
	}
	assert.Equal(t, len(wins), keys, "keys that were won")
	for line, n := range wins {
		assert.Equal(t, n, 1, "processes that have %s", line)
	}
	assert.Equal(t, sqltest.Count(t, s.DB, "orders"), keys, "orders")
	assert.Equal(t, sqltest.Count(t, s.DB, "retrysafe_records WHERE state = 3"), 2*keys, "completed records")
}
