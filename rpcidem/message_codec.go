package rpcidem

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Codec converts the messages of a framework to what a [Guard] compares and stores, and back. M is
// the type of all messages; for protocol buffers it is proto.Message. An adapter makes one Codec.
// It can be used concurrently if its functions can.
type Codec[M any] struct {
	// Kind says in errors what M is: "protocol buffer".
	Kind string
	// Marshal returns the bytes of a message. They must be the same for equal messages of one
	// program, since retries are compared by them.
	Marshal func(m M) ([]byte, error)
	// Unmarshal sets m to the message with these bytes.
	Unmarshal func(body []byte, m M) error
	// Type returns the full name of a message's type.
	Type func(m M) string
	// New returns an empty message of the type with this full name. It returns an error if the
	// program does not know the type.
	New func(name string) (M, error)
}

// Payload returns the bytes of a request, for [Call]. It returns an error if v is no M.
func (c *Codec[M]) Payload(v any) ([]byte, error) {
	m, err := c.asMessage(v)
	if err != nil {
		return nil, err
	}
	return c.Marshal(m)
}

// Reply returns the stored form of a method's answer. It returns an error if v is no M.
func (c *Codec[M]) Reply(v any) (*Reply, error) {
	m, err := c.asMessage(v)
	if err != nil {
		return nil, err
	}
	body, err := c.Marshal(m)
	return &Reply{Type: c.Type(m), Body: body}, err
}

// Failure returns the stored form of a method's error. status is the google.rpc.Status with this
// code.
func (c *Codec[M]) Failure(code Code, status M) (*Reply, error) {
	body, err := c.Marshal(status)
	return &Reply{Code: code, Body: body}, err
}

// Message returns the message of a stored reply whose Code is [OK]. If this program cannot read it,
// Message returns the refusal ANSWER_NOT_READABLE.
func (c *Codec[M]) Message(r *Reply) (m M, refusal *Refusal) {
	m, err := c.New(r.Type)
	if err == nil {
		err = c.Unmarshal(r.Body, m)
	}
	if err != nil {
		var none M
		return none, refusalFor(retrysafe.CodeAnswerNotReadable, err)
	}
	return m, nil
}

// Status sets status, an empty google.rpc.Status, to that of a stored reply whose Code is not
// [OK]. code returns the code of status. If the two codes differ or the bytes are no status, Status
// returns the refusal ANSWER_NOT_READABLE.
func (c *Codec[M]) Status(r *Reply, status M, code func() int32) *Refusal {
	err := c.Unmarshal(r.Body, status)
	if err == nil && Code(code()) != r.Code { //nolint:gosec // a negative one differs from every code
		err = errReply
	}
	if err != nil {
		return refusalFor(retrysafe.CodeAnswerNotReadable, err)
	}
	return nil
}

func (c *Codec[M]) asMessage(v any) (M, error) {
	m, ok := v.(M)
	if !ok {
		return m, fmt.Errorf("rpcidem: a message of type %T is no %s", v, c.Kind)
	}
	return m, nil
}
