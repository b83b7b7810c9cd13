package gateway

import (
	"sync/atomic"
	"time"
)

// logPause lets one line in ten seconds through, for what can happen with each request. It is safe
// for concurrent use.
type logPause struct{ last atomic.Int64 }

func (p *logPause) mayLog() bool {
	now, last := time.Now().UnixNano(), p.last.Load()
	return now-last > int64(10*time.Second) && p.last.CompareAndSwap(last, now)
}
