package sql_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

func init() { child.Parts["mysql claims"] = playMySQLClaims }

// playMySQLClaims claims the keys that it reads from standard input, one after another, and reports
// for each whether it got it. Arguments: address, name.
func playMySQLClaims(args []string) error {
	db, err := sql.Open("mysql", args[0])
	if err != nil {
		return err
	}
	s, err := sqlstore.New(db, sqlstore.MySQL, nil)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		req := teststores.Request(lines.Text())
		req.Owner, req.OnDoubt, req.Lease = teststores.Owner(args[1]+lines.Text()), retrysafe.Reexecute, 200*time.Millisecond
		a, err := s.Acquire(context.Background(), req)
		if err != nil {
			return err
		}
		fmt.Println(lines.Text(), a.Status == storeapi.StatusAcquired, a.Record.Attempt)
	}
	return nil
}

// TestMySQLProcesses: of processes that claim the same key at once exactly one gets it. When one is
// killed in the middle, no key is lost: its keys can be claimed after the lease.
func TestMySQLProcesses(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, _ := teststores.MySQL(t, server.DSN(), nil)
	const keys = 150
	var all [3]*child.Process
	for i := range all {
		all[i] = child.Start(t, "mysql claims", server.DSN(), fmt.Sprint("process ", i))
	}
	var mu sync.Mutex
	wins := map[string]int{}
	var reading sync.WaitGroup
	for i, c := range all {
		reading.Go(func() {
			for n := 0; ; n++ {
				line, ok := c.Read()
				if !ok {
					return
				}
				var key string
				var won bool
				var attempt int
				_, err := fmt.Sscan(line, &key, &won, &attempt)
				assert.NoError(t, err, "a line: %q", line)
				mu.Lock()
				if won && attempt == 1 {
					wins[key]++
				}
				mu.Unlock()
				if i == 0 && n == keys/2 {
					_ = c.Cmd.Process.Kill()
				}
			}
		})
		go func() {
			for n := range keys {
				if _, err := fmt.Fprintf(c.Stdin, "key-%d\n", n); err != nil {
					return // it was killed
				}
			}
			_ = c.Stdin.Close()
		}()
	}
	reading.Wait()
	assert.True(t, all[0].Wait(t), "the first was killed")
	for n := range keys {
		key := fmt.Sprint("key-", n)
		assert.True(t, wins[key] <= 1, "%d processes have won %s", wins[key], key)
		waits.Until(t.Context(), func() bool {
			req := teststores.Request(key)
			req.Owner, req.OnDoubt = teststores.Owner("heir"), retrysafe.Reexecute
			a, err := s.Acquire(t.Context(), req)
			assert.NoError(t, err, "Acquire")
			return a.Status == storeapi.StatusAcquired
		})
	}
	waitMySQLIdle(t, server) // nothing of the killed one is left open
}
