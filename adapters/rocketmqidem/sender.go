package rocketmqidem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/retrysafe/retrysafe/outbox"
)

// sender sends messages and waits for the broker.
type sender struct {
	timeout time.Duration
	client  interface {
		SendSync(ctx context.Context, messages ...*primitive.Message) (*primitive.SendResult, error)
		Shutdown() error
	}

	mu     sync.Mutex
	queues map[string]int // how many a topic has, as far as it is known
}

func newSender(servers *Servers, timeout time.Duration) (*sender, error) {
	if err := servers.check(); err != nil {
		return nil, err
	}
	s := &sender{timeout: timeout, queues: map[string]int{}}
	opts := []producer.Option{
		producer.WithNsResolver(servers.resolver()), producer.WithGroupName("retrysafe"), producer.WithInstanceName(instanceName()),
		producer.WithRetry(0), producer.WithSendMsgTimeout(timeout), producer.WithQueueSelector(s), producer.WithCredentials(servers.credentials()),
	}
	if servers.TLS {
		opts = append(opts, producer.WithTls(true))
	}
	p, err := producer.NewDefaultProducer(opts...)
	if err == nil {
		if err = p.Start(); err != nil {
			_ = p.Shutdown()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rocketmqidem: the client does not start: %w", err)
	}
	s.client = p
	return s, nil
}

func (given *Servers) check() error {
	if given == nil || len(given.NameServers) == 0 {
		return errors.New("rocketmqidem: Servers.NameServers is required: the host:port of the name servers")
	}
	return nil
}

func (given *Servers) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver(given.NameServers)
}

func (given *Servers) credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: given.AccessKey, SecretKey: given.SecretKey, SecurityToken: given.SecurityToken}
}

// instanceName returns a name that no other client has. Clients of one name would share their
// connections, and a group knows its consumers by it.
func instanceName() string { return "retrysafe-" + rand.Text() }

// anyLane is the lane of messages that may go to any queue.
const anyLane = -1

// Select implements the client's choice of a queue. send puts the lane into the message, also if
// it is a batch, of which the client passes nothing else.
func (s *sender) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	s.mu.Lock()
	s.queues[m.Topic] = len(queues)
	s.mu.Unlock()
	lane := anyLane
	if m.Queue != nil {
		lane = m.Queue.QueueId
	}
	if lane < 0 {
		lane = mathrand.IntN(len(queues)) //nolint:gosec // no secret
	}
	return queues[lane%len(queues)]
}

// queueCount returns how many queues a topic has, as far as it is known.
func (s *sender) queueCount(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[topic]
}

// newRecord returns a message to send. The broker takes no message without a body.
func newRecord(topic string, body []byte, props map[string]string) *primitive.Message {
	if len(body) == 0 {
		body = []byte{0}
		props[propEmpty] = "1"
	}
	r := primitive.NewMessage(topic, body)
	r.WithProperties(props)
	return r
}

// longestProperties is the limit of the broker for the properties of a message, in bytes. It cannot
// read a batch with a longer one.
const longestProperties = 1<<15 - 1

// send sends messages of one topic to one queue, and returns when the broker has confirmed them.
// It returns when ctx ends, although the client does not always.
func (s *sender) send(ctx context.Context, lane int, messages ...*primitive.Message) error {
	ctx, end := context.WithTimeout(ctx, s.timeout)
	defer end()
	for _, m := range messages {
		if len(m.MarshallProperties()) > longestProperties {
			return &refusal{codeIllegal, "the properties are too long"}
		}
	}
	messages[0].Queue = &primitive.MessageQueue{QueueId: lane}
	confirmed := make(chan error, 1)
	go func() {
		r, err := s.client.SendSync(ctx, messages...)
		if err == nil && r.Status != primitive.SendOK {
			err = &refusal{code: 0, text: fmt.Sprintf("the broker has the message and cannot promise to keep it (status %d)", r.Status)}
		}
		confirmed <- err
	}()
	select {
	case err := <-confirmed:
		return asRefusal(err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sender) close() { _ = s.client.Shutdown() } // always nil

// refusal is an answer of the broker that it did not take a message.
type refusal struct {
	code int
	text string
}

func (e *refusal) Error() string { return e.text }

// The broker's answers.
const (
	codeSystemError    = 1
	codeNoPermission   = 16
	codeIllegal        = 13
	codeTopicNotExist  = 17
	codeGroupNotExist  = 26
	codeInvalidRequest = 29
)

// asRefusal turns the text that the client makes of an answer into a refusal.
func asRefusal(err error) error {
	if err == nil {
		return nil
	}
	var r refusal
	if n, _ := fmt.Sscanf(err.Error(), "CODE: %d,", &r.code); n == 1 {
		_, r.text, _ = strings.Cut(err.Error(), "DESC: ")
		r.text, _, _ = strings.Cut(r.text, "\n")
		return &r
	}
	return err
}

func isTooLarge(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.code == codeIllegal
}

// isOfOne reports whether the broker may have refused a batch because of one message of it.
func isOfOne(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && (r.code == codeIllegal || r.code == codeSystemError)
}

// hasNoTopic reports whether the client has found no topic.
func hasNoTopic(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.code == codeTopicNotExist || err != nil && strings.Contains(err.Error(), "route info not found")
}

// explainError adds advice to errors whose own text has none.
func explainError(err error) error {
	r, _ := errors.AsType[*refusal](err)
	switch {
	case isTooLarge(err):
		return fmt.Errorf("the broker takes no such message: its body is larger than maxMessageSize, or its headers than 32 KiB: %w", err)
	case hasNoTopic(err):
		return fmt.Errorf("the topic is not there, or no broker of it is; Create makes it: %w", err)
	case r != nil && r.code == codeGroupNotExist:
		return fmt.Errorf("the broker does not know the group; create it, or set autoCreateSubscriptionGroup: %w", err)
	case r != nil && r.code == codeNoPermission:
		return fmt.Errorf("the broker does not allow it; give the topic the permission to write, and the user the right: %w", err)
	}
	return err
}

// outboxError turns an error of a publication into one for the outbox.
func outboxError(err error) error {
	if err == nil {
		return nil
	}
	reason := fmt.Errorf("rocketmqidem: not confirmed: %w", explainError(err))
	r, refused := errors.AsType[*refusal](err)
	switch {
	case isTooLarge(err):
		return outbox.Permanent(reason)
	case hasNoTopic(err): // an operator may create it
		return reason
	case refused && (r.code == codeSystemError || r.code == codeNoPermission || r.code == codeGroupNotExist || r.code == codeInvalidRequest):
		return reason
	}
	return outbox.Unavailable(reason)
}
