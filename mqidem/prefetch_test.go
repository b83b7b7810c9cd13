package mqidem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// fetched is a delivery that only has a message.
type fetched struct {
	mqidem.Delivery
	m *mqidem.Message
}

func (f fetched) Message() *mqidem.Message { return f.m }

func fetchedMessage(id string) mqidem.Delivery { return fetched{m: &mqidem.Message{ID: id}} }

func TestPrefetchRoom(t *testing.T) {
	t.Parallel()
	p := mqidem.NewPrefetch(16, 256)
	for _, c := range []struct{ requested, most, want int }{
		{0, 256, 16}, {0, 10, 10}, {8, 256, 8}, {9, 256, 0}, {16, 256, 0}, {40, 256, 0},
	} {
		assert.Equal(t, p.Room(c.requested, c.most), c.want, "room beside %d requested, at most %d", c.requested, c.most)
	}
	for range 9 {
		p.Put(t.Context(), fetchedMessage(""))
	}
	assert.Equal(t, p.Room(0, 256), 0, "room beside 9 messages")
	for range 2 {
		_, err := p.Receive(t.Context())
		assert.NoError(t, err, "Receive")
	}
	assert.Equal(t, p.Room(0, 256), 9, "room beside 7 messages")
	p.Ahead(100)
	p.Ahead(10) // never lower
	assert.Equal(t, p.Room(0, 256), 93, "room beside 7 messages, with more ahead")
	assert.Equal(t, p.Room(0, 50), 43, "room beside 7 messages, at most 50")
}

// TestPrefetchWaiting: calls of Receive make room, wake the fetching goroutine, and each get one
// message, in order.
func TestPrefetchWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, got := mqidem.NewPrefetch(0, 4), make(chan string, 6)
		for range 6 {
			go func() {
				d, err := p.Receive(t.Context())
				assert.NoError(t, err, "Receive")
				got <- d.Message().ID
			}()
		}
		synctest.Wait()
		<-p.Woken()
		assert.Equal(t, p.Room(0, 4), 4, "room for six calls")
		for _, id := range []string{"0", "1", "2", "3", "4", "5"} {
			p.Put(t.Context(), fetchedMessage(id))
			assert.Equal(t, <-got, id, "message")
		}
		assert.Equal(t, p.Room(0, 4), 0, "room for no call")
	})
}

// TestPrefetchEnd: after End no message comes, also none that is ready, and the first reason stays.
func TestPrefetchEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, why := mqidem.NewPrefetch(1, 1), errors.New("deleted")
		failed := make(chan error, 1)
		go func() {
			_, err := p.Receive(t.Context())
			failed <- err
		}()
		synctest.Wait()
		p.End(why)
		assert.ErrorIs(t, <-failed, why, "Receive at the end")
		p.End(mqidem.ErrSourceClosed)
		<-p.Ended()
		p.Put(t.Context(), fetchedMessage("ready"))
		for range 20 {
			d, err := p.Receive(t.Context())
			assert.True(t, d == nil && errors.Is(err, why), "Receive after the end: %v, %v", d, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 { // two fit; the others must not block
			p.Put(ended, fetchedMessage("late"))
		}
		_, err := mqidem.NewPrefetch(1, 1).Receive(ended)
		assert.ErrorIs(t, err, context.Canceled, "Receive whose context has ended")
	})
}
