package servertest_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// Every port of RocketMQ is on loopback, also the broker's port for its replicas.
func TestRocketMQListensOnLoopback(t *testing.T) {
	t.Parallel()
	r := servertest.StartRocketMQ(t)
	all := 0
	for _, pid := range r.Pids() {
		for _, addr := range listening(t, pid) {
			all++
			assert.True(t, isLoopback(addr), "process %d listens on %s", pid, addr)
		}
	}
	assert.True(t, all >= 4, "ports were found: %d", all)
	r.Kill()
	r.Restart(t)
}

// listening returns the addresses, in hex, on which a process listens.
func listening(t *testing.T, pid int) (addresses []string) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	assert.NoError(t, err, "files of the process")
	inodes := map[string]bool{}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if os.IsNotExist(err) {
			continue
		}
		assert.NoError(t, err, "open %s", table)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
			words := strings.Fields(lines.Text())
			if len(words) > 9 && words[3] == "0A" && inodes[words[9]] {
				addresses = append(addresses, words[1])
			}
		}
		_ = f.Close()
	}
	return addresses
}

// isLoopback reports whether an address of /proc/net is 127.0.0.0/8, the same mapped, or ::1.
func isLoopback(addr string) bool {
	host, _, _ := strings.Cut(addr, ":")
	return len(host) == 8 && strings.HasSuffix(host, "7F") ||
		strings.HasPrefix(host, "0000000000000000FFFF0000") && strings.HasSuffix(host, "7F") ||
		host == "00000000000000000000000001000000"
}
