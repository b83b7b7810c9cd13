package bench_test

import (
	"syscall"
	"testing"
	"time"
)

// cpuUsage returns the CPU time of this process so far, by the kernel's accounting.
func cpuUsage() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	used, err := cpuUsage()
	if err != nil {
		tb.Fatal(err)
	}
	return used
}
