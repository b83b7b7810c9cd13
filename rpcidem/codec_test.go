package rpcidem_test

import (
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// note is a message of a small protocol: its bytes are its text. A note that is "broken" cannot be
// read.
type note struct{ text string }

var errBroken = errors.New("broken")

var notes = rpcidem.Codec[*note]{
	Kind:    "note",
	Marshal: func(n *note) ([]byte, error) { return []byte(n.text), nil },
	Unmarshal: func(body []byte, n *note) error {
		if string(body) == "broken" {
			return errBroken
		}
		n.text = string(body)
		return nil
	},
	Type: func(*note) string { return "test.Note" },
	New: func(name string) (*note, error) {
		if name != "test.Note" {
			return nil, errors.New("unknown type")
		}
		return new(note), nil
	},
}

func TestCodec(t *testing.T) {
	t.Parallel()
	payload, err := notes.Payload(&note{"order"})
	assert.NoError(t, err, "Payload")
	assert.Equal(t, string(payload), "order", "the payload")
	reply, err := notes.Reply(&note{"paid"})
	assert.NoError(t, err, "Reply")
	assert.Equal(t, reply.Code, rpcidem.OK, "the code of an answer")
	m, refusal := notes.Message(reply)
	assert.True(t, refusal == nil, "the answer can be read: %v", refusal)
	assert.Equal(t, m.text, "paid", "the answer")

	failure, err := notes.Failure(rpcidem.NotFound, &note{"no such order"})
	assert.NoError(t, err, "Failure")
	st := new(note)
	refusal = notes.Status(failure, st, func() int32 { return int32(rpcidem.NotFound) })
	assert.True(t, refusal == nil, "the status can be read: %v", refusal)
	assert.Equal(t, st.text, "no such order", "the status")

	_, err = notes.Payload("text")
	assert.Contains(t, err.Error(), "a message of type string is no note", "the payload of another kind")
	_, err = notes.Reply(7)
	assert.Contains(t, err.Error(), "a message of type int is no note", "the answer of another kind")
}

// TestCodecOfUnreadableReplies: the caller gets a refusal with the cause, and no half message.
func TestCodecOfUnreadableReplies(t *testing.T) {
	t.Parallel()
	ok := func() int32 { return int32(rpcidem.NotFound) }
	for name, read := range map[string]func() *rpcidem.Refusal{
		"another type": func() *rpcidem.Refusal {
			m, refusal := notes.Message(&rpcidem.Reply{Type: "test.Other"})
			assert.True(t, m == nil, "a message of another type")
			return refusal
		},
		"broken bytes": func() *rpcidem.Refusal {
			m, refusal := notes.Message(&rpcidem.Reply{Type: "test.Note", Body: []byte("broken")})
			assert.True(t, m == nil, "a message of broken bytes")
			return refusal
		},
		"a broken status": func() *rpcidem.Refusal {
			return notes.Status(&rpcidem.Reply{Code: rpcidem.NotFound, Body: []byte("broken")}, new(note), ok)
		},
		"another code": func() *rpcidem.Refusal {
			return notes.Status(&rpcidem.Reply{Code: rpcidem.Aborted}, new(note), ok)
		},
	} {
		refusal := read()
		assert.True(t, refusal != nil && refusal.Reason == "ANSWER_NOT_READABLE" && refusal.Unwrap() != nil, "%s: %v", name, refusal)
	}
}

func TestAnswersSayWhereTheyAreFrom(t *testing.T) {
	t.Parallel()
	for served, want := range map[rpcidem.Served][2]string{
		{}:                                 {},
		{Guarded: true}:                    {},
		{Guarded: true, Replayed: true}:    {"idempotency-replayed", "true"},
		{Guarded: true, Unconfirmed: true}: {"idempotency-stored", "unconfirmed"},
	} {
		name, value := served.Metadata()
		assert.Equal(t, [2]string{name, value}, want, "the metadata of %+v", served)
	}
}

func TestFailuresOfCalls(t *testing.T) {
	t.Parallel()
	var f rpcidem.Failure
	f.Info("googleapis.com", "OTHER")
	f.Delay(-1)
	_, refused := f.Refused()
	assert.Equal(t, refused, false, "a reason of another domain")
	assert.Equal(t, f, rpcidem.Failure{}, "what another domain and a negative delay say")
	f.Info(rpcidem.Domain, "IN_PROGRESS")
	f.Delay(0)
	reason, refused := f.Refused()
	assert.Equal(t, reason, "IN_PROGRESS", "the reason")
	assert.True(t, refused && f.Asked && f.RetryAfter == 0, "a refusal that may be retried at once: %+v", f)
}
