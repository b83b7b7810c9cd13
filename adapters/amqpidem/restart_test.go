package amqpidem_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// TestOwnServer has a server that it may hurt.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	s := new(server)
	s.start(t)
	for _, alarm := range []struct{ name, set, high, low string }{
		{"disk", "set_disk_free_limit", "1000000GB", "1MB"},
		{"memory", "set_vm_memory_high_watermark", "0.000001", "0.9"},
	} {
		t.Run(alarm.name+" alarm", func(t *testing.T) { //nolint:paralleltest // one server
			testAlarm(t, s, func() { s.ctl(t, alarm.set, alarm.high) }, func() { s.ctl(t, alarm.set, alarm.low) })
		})
	}
	t.Run("killed", func(t *testing.T) { testKilled(t, s) }) //nolint:paralleltest // one server
}

// testAlarm: while the broker is short of disk or memory, publishing ends with an error in its time, and acks pass. Behind it all goes on.
func testAlarm(t *testing.T, s *server, high, low func()) {
	t.Helper()
	const timeout = 300 * time.Millisecond
	url, queue := s.vhost(t), unique()
	source := open(t, url, queue, &amqpidem.Options{Delays: short, PublishTimeout: timeout, Dialing: quietly()})
	out := publisher(t, url, &amqpidem.PublisherOptions{Timeout: timeout})
	publish(t, out, queue, "a", "b", "c", "d")
	held := receive(t, source)
	high()
	for n, want := range []string{"nobody knows", "connection.blocked", "connection.blocked"} {
		began := time.Now()
		errs := out.Publish(t.Context(), outgoing(queue, "while", "it", "lasts"))
		for _, err := range errs {
			assert.True(t, unavailable(err), "publish: %v", err)
		}
		if n > 0 {
			assert.Contains(t, errs[0].Error(), want, "the error of publication %d", n+1)
		}
		assert.True(t, time.Since(began) < 20*timeout, "publication %d took %v", n+1, time.Since(began))
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
	eventually(t, "later tries go on", func() bool { return held.Retry(t.Context(), time.Millisecond) == nil })
	for again, behind := 0, 0; again == 0 || behind == 0; {
		d := receive(t, source)
		switch d.Message().ID {
		case "a":
			again++
		case "behind it":
			behind++
		}
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// testKilled: what was confirmed is there when the broker comes back, wherever it was, and sources and publishers go on by themselves.
func testKilled(t *testing.T, s *server) {
	t.Helper()
	type side struct {
		queue  string
		source *amqpidem.Source
	}
	url := s.vhost(t)
	out := publisher(t, url, nil)
	var sides []side
	for queue, quorum := range map[string]bool{"classic": false, "quorum": true} {
		source := open(t, url, queue, &amqpidem.Options{Quorum: quorum, Delays: []time.Duration{time.Millisecond, 3 * time.Second}, Dialing: quietly()})
		publish(t, out, queue, "dead", "later", "held", "waits")
		assert.NoError(t, receive(t, source).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
		assert.NoError(t, receive(t, source).Retry(t.Context(), 3*time.Second), "Retry")
		assert.Equal(t, receive(t, source).Message().ID, "held", "what is held")
		sides = append(sides, side{queue, source})
	}
	// RabbitMQ 3.10 writes down within a second that there is a new quorum queue, and a broker that is killed before has forgotten what was in it.
	s.ctl(t, "eval", "[ok = dets:sync(T) || T <- dets:all()].")
	s.kill()
	for _, err := range out.Publish(t.Context(), outgoing("classic", "while it is away")) {
		assert.True(t, unavailable(err), "publish to nobody: %v", err)
	}
	s.run(t, s.addr)
	for _, one := range sides {
		seen := map[string]bool{}
		for !seen["later"] || !seen["held"] || !seen["waits"] { // and what the broker has forgotten the ack of
			d := receive(t, one.source)
			assert.NoError(t, d.Ack(t.Context()), "Ack")
			seen[d.Message().ID] = true
		}
		assert.Equal(t, bodies(look(t, parking(t, url, one.queue))), []string{"dead"}, "what %s has parked", one.queue)
		publish(t, out, one.queue, "behind it")
		for receive(t, one.source).Message().ID != "behind it" {
			continue
		}
	}
}
