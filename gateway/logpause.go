package gateway

import (
	"sync/atomic"
	"time"
)

// logPause lets one line in ten seconds through, for what can happen with each request. It is safe
// for concurrent use.
type logPause struct{ last atomic.Pointer[time.Time] }

func (p *logPause) mayLog() bool {
	now, last := time.Now(), p.last.Load()
	return (last == nil || now.Sub(*last) >= 10*time.Second) && p.last.CompareAndSwap(last, &now)
}
