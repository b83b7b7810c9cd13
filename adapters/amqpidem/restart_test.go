package amqpidem_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// side is a queue and its consumer.
type side struct {
	queue  string
	source *amqpidem.Source
}

// TestOwnServer uses its own server, which it may damage.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	s := new(server)
	s.start(t)
	// Queues that must survive the kill are made long before it: RabbitMQ 3.10 takes about a second
	// to store a new quorum queue. If it is killed before, it loses the messages of that queue.
	url := s.vhost(t)
	var sides []side
	for queue, quorum := range map[string]bool{"classic": false, "quorum": true} {
		sides = append(sides, side{queue, open(t, url, queue, &amqpidem.Options{
			Quorum: quorum, Delays: []time.Duration{time.Millisecond, 3 * time.Second}, Dialing: quietDialing(),
		})})
	}
	for _, alarm := range []struct{ name, set, high, low string }{
		{"disk", "set_disk_free_limit", "1000000GB", "1MB"},
		{"memory", "set_vm_memory_high_watermark", "0.000001", "0.9"},
	} {
		t.Log("an alarm of", alarm.name)
		testAlarm(t, s, func() { s.ctl(t, alarm.set, alarm.high) }, func() { s.ctl(t, alarm.set, alarm.low) })
	}
	testKilled(t, s, url, sides)
}

// testAlarm: while the broker is short of disk or memory, publishing fails after its timeout, and
// acks work. After the alarm everything continues.
func testAlarm(t *testing.T, s *server, high, low func()) {
	t.Helper()
	const timeout = 5 * time.Second
	url, queue := s.vhost(t), uniqueQueue()
	source := open(t, url, queue, &amqpidem.Options{Delays: short, PublishTimeout: timeout, Dialing: quietDialing()})
	out := publisher(t, url, &amqpidem.PublisherOptions{Timeout: timeout})
	publish(t, publisher(t, url, &amqpidem.PublisherOptions{Timeout: 2 * time.Minute}), queue, "a", "b", "c", "d")
	held := receive(t, source)
	high()
	for n, want := range []string{"outcome is unknown", "connection.blocked", "connection.blocked"} {
		began := time.Now()
		errs := out.Publish(t.Context(), outgoing(queue, "while", "it", "lasts"))
		for _, err := range errs {
			assert.True(t, unavailable(err), "publish: %v", err)
		}
		if n > 0 {
			assert.Contains(t, errs[0].Error(), want, "the error of publication %d", n+1)
		}
		assert.True(t, time.Since(began) < 5*time.Minute, "publication %d took %v", n+1, time.Since(began))
	}
	for range 3 {
		assert.NoError(t, receive(t, source).Ack(t.Context()), "Ack")
	}
	err := held.Retry(t.Context(), time.Millisecond)
	assert.True(t, err != nil, "Retry fails")
	eventually(t, "acks have reached the broker", func() bool {
		var q struct {
			Unacked int `json:"messages_unacknowledged"`
		}
		return s.api("GET", "queues/"+url[len("amqp://guest:guest@"+s.addr+"/"):]+"/"+queue, nil, &q) == nil && q.Unacked == 1
	})
	low()
	eventually(t, "publishing goes on", func() bool { return out.Publish(t.Context(), outgoing(queue, "behind it"))[0] == nil })
	for tried, again, behind := 0, 0, 0; again == 0 || behind == 0; {
		d := receive(t, source)
		switch d.Message().ID {
		case "a": // it was given back
			if tried++; tried == 1 {
				assert.NoError(t, d.Retry(t.Context(), time.Millisecond), "Retry")
				continue
			}
			again++
		case "behind it":
			behind++
		}
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// testKilled: confirmed messages are there when the broker is back, wherever they were. Sources and
// publishers continue by themselves.
func testKilled(t *testing.T, s *server, url string, sides []side) {
	t.Helper()
	out := publisher(t, url, nil)
	for _, one := range sides {
		publish(t, out, one.queue, "dead", "later", "held", "waits")
		assert.NoError(t, receive(t, one.source).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
		assert.NoError(t, receive(t, one.source).Retry(t.Context(), 3*time.Second), "Retry")
		assert.Equal(t, receive(t, one.source).Message().ID, "held", "what is held")
	}
	s.kill()
	for _, err := range out.Publish(t.Context(), outgoing("classic", "while it is away")) {
		assert.True(t, unavailable(err), "publish to nobody: %v", err)
	}
	s.run(t, s.addr)
	for _, one := range sides {
		seen := map[string]bool{}
		for !seen["later"] || !seen["held"] || !seen["waits"] {
			// and those whose ack the broker has lost
			d := receive(t, one.source)
			assert.NoError(t, d.Ack(t.Context()), "Ack")
			seen[d.Message().ID] = true
		}
		assert.Equal(t, bodies(listDead(t, deadLetters(t, url, one.queue))), []string{"dead"}, "what %s has dead letters", one.queue)
		publish(t, out, one.queue, "behind it")
		for receive(t, one.source).Message().ID != "behind it" {
			continue
		}
	}
}
