package filter

import (
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestReaderBesideRotation: an id that is added again before each window ends is never missed by a
// reader, which takes no lock.
func TestReaderBesideRotation(t *testing.T) {
	t.Parallel()
	b, err := NewBloom(&Options{Items: 1000, Window: time.Hour, Windows: 2, Empty: true})
	assert.NoError(t, err, "a filter")
	at := b.shape.placeOf([]byte("a"))
	m := b.shape.maskOf(at.bits)
	p := &b.parts[at.part]
	next := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.add(at, &m)
		p.rotate(p.currentWindow.Load() + 1)
	}
	next()
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				next()
			}
		}
	})
	missed := 0
	for range 2_000_000 {
		if !p.mayContain(at, &m) {
			missed++
		}
	}
	close(stop)
	writer.Wait()
	assert.Equal(t, missed, 0, "looks that missed the id")
}
