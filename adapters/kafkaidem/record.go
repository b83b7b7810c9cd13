package kafkaidem

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// messageOf returns the message of a record.
func messageOf(r *kgo.Record, deliveries int) *mqidem.Message {
	m := &mqidem.Message{
		Source: r.Topic, Key: string(r.Key), Headers: map[string][]byte{}, Body: r.Value, Deliveries: deliveries, Published: r.Timestamp,
	}
	for _, h := range r.Headers {
		switch h.Key {
		case mqidem.HeaderID:
			m.ID = string(h.Value)
		case mqidem.HeaderContentType:
			m.ContentType = string(h.Value)
		default:
			m.Headers[h.Key] = h.Value
		}
	}
	return m
}

// recordOf is the reverse of messageOf.
func recordOf(topic string, m *mqidem.Message) *kgo.Record {
	r := contentRecord(topic, m.ID, m.Key, m.ContentType, m.Body)
	for name, value := range m.Headers {
		if !isOwnHeader(name) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: value})
		}
	}
	return r
}

// contentRecord returns a record without the producer's headers. A nil body does not become a
// tombstone.
func contentRecord(topic, id, key, contentType string, body []byte) *kgo.Record {
	r := &kgo.Record{Topic: topic, Value: body}
	if body == nil {
		r.Value = []byte{}
	}
	if key != "" {
		r.Key = []byte(key)
	}
	for _, one := range [][2]string{{mqidem.HeaderID, id}, {mqidem.HeaderContentType, contentType}} {
		if one[1] != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: one[0], Value: []byte(one[1])})
		}
	}
	return r
}

func isOwnHeader(name string) bool {
	return name == mqidem.HeaderID || name == mqidem.HeaderContentType
}

// produceAll writes records, and waits for each until it is confirmed or ctx ends. The client
// continues to send the records that it has started with after ctx ends.
func produceAll(ctx context.Context, cl *kgo.Client, records []*kgo.Record) []error {
	type result struct {
		at  int
		err error
	}
	errs := make([]error, len(records))
	results := make(chan result, len(records))
	for i, r := range records {
		errs[i] = context.Canceled // until the result is known
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) { results <- result{i, err} })
	}
	for n := range records {
		select {
		case r := <-results:
			errs[r.at] = r.err
		case <-ctx.Done():
			for ; n < len(records); n++ { // results that are already known
				select {
				case r := <-results:
					errs[r.at] = r.err
				default:
				}
			}
			for i, err := range errs {
				if errors.Is(err, context.Canceled) {
					errs[i] = ctx.Err()
				}
			}
			return errs
		}
	}
	return errs
}

func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// explainError adds advice to errors whose own text has none.
func explainError(err error) error {
	switch {
	case isTooLarge(err):
		return fmt.Errorf("the message is larger than the client, the broker or the topic takes; raise kgo.ProducerBatchMaxBytes or max.message.bytes: %w", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("the topic is not there; create it: %w", err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("the user may not do this; allow it by an ACL: %w", err)
	}
	return err
}

// outboxError turns an error of a publication into one for the outbox.
func outboxError(err error) error {
	if err == nil {
		return nil
	}
	reason := fmt.Errorf("kafkaidem: not confirmed: %w", explainError(err))
	_, refused := errors.AsType[*kerr.Error](err)
	switch {
	case isTooLarge(err), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidRecord):
		return outbox.Permanent(reason)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return reason // an operator may create it
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.SaslAuthenticationFailed):
		return outbox.Unavailable(reason) // for all messages
	case refused && !kerr.IsRetriable(err):
		return reason
	}
	return outbox.Unavailable(reason)
}
