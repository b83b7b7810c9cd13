package freeport_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

func TestGet(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 50 {
		port, err := freeport.Get()
		assert.NoError(t, err, "Get")
		assert.True(t, !seen[port], "port %s is given once", port)
		seen[port] = true
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		assert.NoError(t, err, "listen on %s", port)
		defer l.Close()
	}
}

// TestGetRow: ports in a row are given to no one else, also when others search at the same time.
func TestGetRow(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			row, err := freeport.GetRow(3)
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, err, "GetRow")
			for i, port := range row {
				n, err := strconv.Atoi(port)
				assert.NoError(t, err, "a port")
				first, err := strconv.Atoi(row[0])
				assert.NoError(t, err, "a port")
				assert.True(t, n == first+i && !seen[port], "ports %v", row)
				seen[port] = true
			}
		})
	}
	all.Wait()
	assert.Equal(t, len(seen), 12, "ports")
}

// TestGetInAnotherProcess: no process gets a port that another one has got.
func TestGetInAnotherProcess(t *testing.T) { //nolint:paralleltest // a process that is just being started holds the listeners of this one for a moment
	if os.Getenv("FREEPORT_CHILD") != "" {
		freeport.SearchFrom(20000) // where all children search
		for range 200 {
			port, err := freeport.Get()
			assert.NoError(t, err, "Get")
			fmt.Println("port", port)
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other children have their ports
		return
	}
	seen := map[string]bool{}
	for range 3 {
		self, err := os.Executable()
		assert.NoError(t, err, "executable")
		c := exec.CommandContext(t.Context(), self, "-test.run", "^TestGetInAnotherProcess$")
		c.Env = append(os.Environ(), "FREEPORT_CHILD=1")
		_, err = c.StdinPipe() // open until this test ends
		assert.NoError(t, err, "pipe")
		out, err := c.StdoutPipe()
		assert.NoError(t, err, "pipe")
		assert.NoError(t, c.Start(), "start")
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		lines := bufio.NewScanner(out)
		for n := 0; n < 200 && lines.Scan(); {
			if port, is := strings.CutPrefix(lines.Text(), "port "); is {
				assert.True(t, !seen[port], "port %s is given to two processes", port)
				seen[port] = true
				n++
			}
		}
	}
	assert.Equal(t, len(seen), 600, "ports")
}
