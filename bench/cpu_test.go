package bench_test

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time of this process so far, by the kernel's accounting.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
