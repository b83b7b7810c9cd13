package rocketmqidem_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
)

// The broker deletes messages while no consumer is there. The next one reports them, and goes on
// with what is left.
func TestDeletedMessagesAreReported(t *testing.T) {
	t.Parallel()
	// a file is deleted as soon as another one is written
	r := servertest.StartRocketMQ(t, "mappedFileSizeCommitLog=65536", "maxMessageSize=32768", "fileReservedTime=0", "cleanResourceInterval=500",
		"deleteWhen=00;01;02;03;04;05;06;07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23")
	q := newQueue(t, r, nil)
	s := q.openSource(t)
	q.publish(t, "settled")
	assert.NoError(t, receive(t, s, "settled").Ack(t.Context()), "Ack")
	assert.NoError(t, s.Close(), "Close")
	for i := range 20 {
		q.publishLarge(t, fmt.Sprint(i))
	}
	eventually(t, "the broker deletes messages", func() bool {
		oldest, err := rocketmqidem.OldestOffset(t.Context(), q.servers, q.o.Topic)
		assert.NoError(t, err, "the oldest offset")
		if oldest <= 1 {
			_ = backoff.Pause(t.Context(), time.Second)
		}
		return oldest > 1
	})
	s = q.openSource(t)
	reported, reports := 0, 0
	d, err := s.Receive(t.Context())
	for ; ; d, err = s.Receive(t.Context()) {
		assert.NoError(t, err, "Receive")
		lost, ok := d.(mqidem.Lost)
		if !ok {
			break
		}
		var messages int
		_, err := fmt.Sscanf(lost.Lost().Error(), "rocketmqidem: the broker has deleted %d messages", &messages)
		assert.NoError(t, err, "the number in the report %v", lost.Lost())
		assert.NoError(t, d.Ack(t.Context()), "Ack of the report")
		reported += messages
		reports++ // the broker may go on deleting
	}
	assert.True(t, reports > 0, "the report comes first, and not message %s", d.Message().ID)
	first := 0
	_, err = fmt.Sscan(d.Message().ID, &first)
	assert.NoError(t, err, "the first message that is left")
	assert.Equal(t, reported, first, "deleted messages")
}
