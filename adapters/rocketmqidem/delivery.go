package rocketmqidem

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message that a consumer holds.
type delivery struct {
	source  *Source
	queue   *queue
	record  *handedRecord
	message *mqidem.Message
	state   *mqidem.Settlement
}

func newDelivery(s *Source, q *queue, w *handedRecord) *delivery {
	return &delivery{source: s, queue: q, record: w, state: mqidem.NewSettlement(0, nil)}
}

func (d *delivery) Message() *mqidem.Message { return d.message }

// Ack implements mqidem.Delivery. It does not wait for the commit, which covers all messages
// settled meanwhile. Messages that were acked just before a crash are delivered again.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settleOnce(context.WithoutCancel(ctx), nil, d.settleRecord)
}

// Retry implements mqidem.Delivery. It sends a copy to the topic of later tries, and returns when
// the broker has confirmed it. With Options.Ordered, or if the copy would be too large, the message
// waits in this process instead.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.retry(ctx, after, 1)
}

// retry is Retry. tries is by how much the message has been tried more often.
func (d *delivery) retry(ctx context.Context, after time.Duration, tries int) error {
	due := time.Now().Add(after)
	waitHere := func() {
		d.record.due = due
		d.queue.laterTries = append(d.queue.laterTries, d.record)
	}
	if d.source.o.Ordered {
		return d.settleOnce(ctx, nil, waitHere)
	}
	here := false
	return d.settleOnce(ctx, func(ctx context.Context) error {
		err := d.source.deadLetters.sender.send(ctx, anyLane, d.laterTry(due, tries))
		switch {
		case err == nil:
		case isTooLarge(err), tries == 0: // the second: no caller waits for this one
			here = true
		default:
			return fmt.Errorf("rocketmqidem: not settled; the copy for the later try is not confirmed: %w", explainError(err))
		}
		return nil
	}, func() {
		if here {
			waitHere()
		} else {
			d.settleRecord()
		}
	})
}

// laterTry returns the copy of the message for a later try.
func (d *delivery) laterTry(due time.Time, tries int) *primitive.Message {
	o := &d.source.o
	props := propertiesOf(d.message)
	if tries == 0 {
		d.source.o.Logger.Debug("rocketmqidem: a later try was delivered before its time, and waits again", "topic", o.Topic, "group", o.Group, "due", due)
	}
	props[primitive.PropertyRetryTopic] = d.message.Source
	props[mqidem.HeaderTries] = strconv.Itoa(d.message.Deliveries - 1 + tries)
	props[propDue] = strconv.FormatInt(due.UnixMilli()+1, 10) // never before its time
	props[propPublished] = strconv.FormatInt(d.message.Published.UnixMilli(), 10)
	props[primitive.PropertyDelayTimeLevel] = strconv.Itoa(o.delayLevel(time.Until(due)))
	return newRecord(o.retryTopic(), d.message.Body, props)
}

// dueTime returns when a later try is due; zero if the message is none. Other producers may write
// to the topic, and the property means nothing there.
func (s *Source) dueTime(r *primitive.MessageExt) time.Time {
	ms, err := strconv.ParseInt(r.GetProperty(propDue), 10, 64)
	if err != nil || r.Topic != s.o.retryTopic() {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Dead implements mqidem.Delivery.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	write := func(ctx context.Context) error {
		if err := d.source.deadLetters.addDeadLetter(ctx, d.message, why); err != nil {
			return fmt.Errorf("rocketmqidem: not settled; the message stays with this consumer: %w", err)
		}
		return nil
	}
	return d.settleOnce(ctx, write, d.settleRecord)
}

func (d *delivery) settleRecord() { d.queue.settleRecord(d.record) }

// settleOnce writes a copy, if there is one, and then settles the message in its queue.
func (d *delivery) settleOnce(ctx context.Context, write func(context.Context) error, then func()) error {
	return d.state.Settle(ctx, mqidem.SettleSteps{
		Check: d.checkOwned,
		Write: write,
		Answer: func(context.Context) error {
			d.source.mu.Lock()
			defer d.source.mu.Unlock()
			if d.queue.lost {
				return errQueueLost
			}
			d.queue.heldCount--
			then()
			d.source.wakeWaiters()
			d.source.requestCommit()
			return nil
		},
	})
}

var errQueueLost = fmt.Errorf("rocketmqidem: not settled: %w", mqidem.ErrStale)

// checkOwned returns an error if this consumer has lost the queue.
func (d *delivery) checkOwned(context.Context) error {
	d.source.mu.Lock()
	defer d.source.mu.Unlock()
	if d.queue.lost || d.source.isClosed() {
		return errQueueLost
	}
	return nil
}
