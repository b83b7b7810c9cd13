package amqpidem_test

import (
	"context"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// fullPublishing has all fields of AMQP.
func fullPublishing() amqp.Publishing {
	at := time.Unix(1700000000, 0)
	return amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: amqp.Transient, Priority: 7, CorrelationId: "correlation\xff", ReplyTo: "answers",
		MessageId: "id", Timestamp: at, Type: "type", UserId: "guest", AppId: "app", Body: []byte("no gzip at all"),
		Headers: amqp.Table{
			"text": "ü", "empty": "", "bytes": []byte{0, 255}, "no": false, "yes": true, "byte": uint8(200), "int8": int8(-8), "int16": int16(-16),
			"uint16": uint16(16), "int32": int32(-32), "uint32": uint32(math.MaxUint32), "int64": int64(math.MinInt64), "float": float32(0.1), "double": 0.1,
			"decimal": amqp.Decimal{Scale: 2, Value: 12345}, "time": at, "void": nil, "list": []any{int32(1), "two", amqp.Table{"three": []any{int64(3)}}, nil, []byte{1}},
			"table": amqp.Table{"a": amqp.Table{}, "t": at},
		},
	}
}

// expectSameContent compares the content. The header with the routing key of a message from an
// exchange is ours.
func expectSameContent(t *testing.T, got *amqp.Delivery, want amqp.Publishing, where string) {
	t.Helper()
	headers := amqp.Table{}
	for name, v := range got.Headers {
		if !strings.HasPrefix(name, "x-") && name != mqidem.HeaderTries && name != mqidem.HeaderDead {
			headers[name] = v
		}
	}
	for name, v := range want.Headers {
		assert.True(t, reflect.DeepEqual(headers[name], v), "%s: header %s is %#v and was %#v", where, name, headers[name], v)
	}
	assert.Equal(t, len(headers), len(want.Headers), "%s: headers", where)
	type rest struct {
		contentType, encoding, correlation, reply, id, kind, user, app, body string
		mode, priority                                                       uint8
		at                                                                   time.Time
	}
	assert.Equal(t, rest{
		got.ContentType, got.ContentEncoding, got.CorrelationId, got.ReplyTo, got.MessageId, got.Type, got.UserId, got.AppId, string(got.Body),
		got.DeliveryMode, got.Priority, got.Timestamp,
	}, rest{
		want.ContentType, want.ContentEncoding, want.CorrelationId, want.ReplyTo, want.MessageId, want.Type, want.UserId, want.AppId, string(want.Body),
		amqp.Persistent, want.Priority, want.Timestamp,
	}, "%s", where)
}

// TestSurvives: later tries, dead letters and redriven messages keep all that they had.
func TestSurvives(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Delays: short, Dialing: quietDialing()})
	ch := rawChannel(t, url)
	assert.NoError(t, ch.PublishWithContext(t.Context(), "", queue, false, false, fullPublishing()), "publish")
	d := receive(t, s)
	m := d.Message()
	assert.True(t, m.ID == "id" && m.ContentType == "text/plain" && string(m.Body) == "no gzip at all" && m.Published.Unix() == 1700000000, "the message: %+v", m)
	for name, want := range map[string]string{
		"text": "ü", "empty": "", "bytes": "\x00\xff", "no": "false", "byte": "200", "int8": "-8", "uint32": "4294967295", "int64": "-9223372036854775808",
		"float": "0.1", "double": "0.1", "decimal": "12345e-2", "time": "2023-11-14T22:13:20Z", "void": "",
		"list": `[1,"two",{"three":[3]},null,"\u0001"]`, "table": `{"a":{},"t":"2023-11-14T22:13:20Z"}`,
	} {
		v, ok := m.Headers[name]
		assert.True(t, ok, "header %s is shown", name)
		assert.Equal(t, string(v), want, "header %s", name)
	}
	assert.NoError(t, d.Retry(t.Context(), time.Minute), "Retry")
	copied, ok, err := ch.Get(queue+".delay.60000", true)
	assert.True(t, ok && err == nil, "the later try is there")
	expectSameContent(t, &copied, fullPublishing(), "a later try")

	assert.NoError(t, ch.PublishWithContext(t.Context(), "", queue, false, false, fullPublishing()), "publish")
	assert.NoError(t, receive(t, s).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	p := deadLetters(t, url, queue)
	found := listDead(t, p)[0].Message.Clone()
	assert.NoError(t, s.Close(), "Close")
	dead, ok, err := ch.Get(queue+".dead", false)
	assert.True(t, ok && err == nil, "the dead letter is there")
	expectSameContent(t, &dead, fullPublishing(), "a dead letter")
	assert.NoError(t, p.Send(t.Context(), found), "Send")
	back, ok, err := ch.Get(queue, true)
	assert.True(t, ok && err == nil, "it is back")
	expectSameContent(t, &back, fullPublishing(), "a message that was put back")

	found.Headers["int8"], found.Headers["more"] = []byte("9"), []byte("more")
	delete(found.Headers, "table")
	assert.NoError(t, p.Send(t.Context(), found), "Send of what was changed")
	back, _, err = ch.Get(queue, true)
	assert.NoError(t, err, "Get")
	want := fullPublishing()
	want.Headers["int8"], want.Headers["more"] = "9", "more"
	delete(want.Headers, "table")
	expectSameContent(t, &back, want, "a message that was changed")
}

// TestHarmful: a copy leaves out harmful fields. Another user's name closes the channel, an
// expiration ends the wait or drops a dead letter, CC sends copies to other queues.
func TestHarmful(t *testing.T) {
	t.Parallel()
	broker := rabbit(t)
	url, queue := broker.vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Delays: short, Dialing: quietDialing()})
	other := broker.user(t, url, ".*", ".*", ".*")
	name, _, _ := strings.Cut(strings.TrimPrefix(other, "amqp://"), ":")
	ch := rawChannel(t, other)
	_, err := ch.QueueDeclare("copies", true, false, false, false, nil)
	assert.NoError(t, err, "declare")
	assert.NoError(t, ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{
		MessageId: "m", UserId: name, Expiration: "30000", Headers: amqp.Table{"CC": []any{"copies"}},
	}), "publish")
	d := receive(t, s)
	assert.True(t, d.Message().Headers["CC"] == nil, "the broker's own header is not shown")
	assert.NoError(t, d.Retry(t.Context(), 0), "Retry")
	assert.NoError(t, receive(t, s).Retry(t.Context(), time.Minute), "Retry")
	d2, ok, err := ch.Get(queue+".delay.60000", true)
	assert.True(t, ok && err == nil && d2.Expiration == "" && d2.UserId == "", "the later try has no expiration, and no name of another user")
	assert.Equal(t, queueDepth(t, url, "copies"), 1, "messages of the other queue")
}

// TestIDs: an id is in the property. If that has no room, or if the producer has set the header, it
// is in the header.
func TestIDs(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Delays: short, Dialing: quietDialing()})
	ch, p := rawChannel(t, url), deadLetters(t, url, queue)
	long := strings.Repeat("i", 10_000)
	assert.NoError(t, ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{MessageId: "property", Headers: amqp.Table{mqidem.HeaderID: long}}), "publish")
	d := receive(t, s)
	assert.Equal(t, d.Message().ID, long, "the header wins")
	assert.True(t, d.Message().Headers[mqidem.HeaderID] == nil, "and is not shown")
	assert.NoError(t, d.Retry(t.Context(), 0), "Retry")
	d = receive(t, s)
	assert.Equal(t, d.Message().ID, long, "the id of a later try")
	assert.NoError(t, d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison}), "Dead")
	m := listDead(t, p)[0].Message
	for _, id := range []string{long, "short", strings.Repeat("i", 255), strings.Repeat("i", 256), "\x00", "\xff", "ü", ""} {
		m.ID = id
		assert.NoError(t, p.Send(t.Context(), m), "Send")
		d := receive(t, s)
		assert.Equal(t, d.Message().ID, id, "an id of %d bytes", len(id))
		assert.NoError(t, d.Ack(t.Context()), "Ack")
	}
}

// TestDoesNotFit: a value that is too long for AMQP is refused, the connection stays, and the error
// does not show the value.
func TestDoesNotFit(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Delays: short, Dialing: quietDialing()})
	p, secret := deadLetters(t, url, queue), strings.Repeat("geheim", 50)
	for what, m := range map[string]*mqidem.Message{
		"content type": {ID: "m", Source: queue, ContentType: secret},
		"routing key":  {ID: "m", Source: secret},
		"header":       {ID: "m", Source: queue, Headers: map[string][]byte{secret: nil}},
		"headers":      {ID: "m", Source: queue, Headers: map[string][]byte{"h": []byte(strings.Repeat("geheim", 25_000))}},
		"Source":       {ID: "m"},
	} {
		err := p.Send(t.Context(), m)
		assert.True(t, err != nil && !strings.Contains(err.Error(), "geheim"), "%s: an error without content: %v", what, err)
		assert.Contains(t, err.Error(), what, "the error")
	}
	assert.NoError(t, p.Send(t.Context(), &mqidem.Message{ID: "m", Source: queue}), "Send of what fits")
	assert.NoError(t, receive(t, s).Ack(t.Context()), "Ack")
	err := p.Send(t.Context(), &mqidem.Message{ID: "m", Source: "nowhere"})
	assert.True(t, err != nil, "Send to a missing queue fails")
	assert.Contains(t, err.Error(), `"nowhere"`, "the error")
}

// TestForeign: entries of other programs are shown as unreadable, and can be redriven.
func TestForeign(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	s := open(t, url, queue, &amqpidem.Options{Delays: short, Dialing: quietDialing()})
	assert.NoError(t, rawChannel(t, url).PublishWithContext(t.Context(), "", queue+".dead", false, false, amqp.Publishing{
		MessageId: "m", Headers: amqp.Table{mqidem.HeaderDead: "no JSON", "h": "v"},
	}), "publish")
	p := deadLetters(t, url, queue)
	eventually(t, "it is a dead letter", func() bool { return queueDepth(t, url, queue+".dead") == 1 })
	assert.NoError(t, p.Walk(t.Context(), func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		assert.Equal(t, m.Reason.Why, mqidem.DeadUnreadable, "why")
		assert.True(t, m.Message.Headers[mqidem.HeaderDead] == nil && m.Message.Header("h") == "v", "the headers: %v", m.Message.Headers)
		return mqidem.Remove, p.Send(ctx, m.Message)
	}), "Walk")
	assert.Equal(t, receive(t, s).Message().ID, "m", "it is back")
	assert.Equal(t, len(listDead(t, p)), 0, "dead letters")
}

// TestUnreadable: a message that the client cannot read is logged, with advice. When it is gone,
// the others arrive.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	said := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		select {
		case said <- string(b):
		default:
		}
		return len(b), nil
	}), nil))
	var deep any = "x"
	for range 40 {
		deep = []any{deep}
	}
	assert.NoError(t, amqpidem.Declare(t.Context(), url, queue, nil), "Declare")
	ch := rawChannel(t, url)
	assert.NoError(t, ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{MessageId: "geheim", Headers: amqp.Table{"deep": deep}}), "publish")
	s := open(t, url, queue, &amqpidem.Options{Dialing: amqpidem.Dialing{Logger: log}})
	line := <-said
	assert.Contains(t, line, "take that message out of the queue", "the log")
	assert.True(t, !strings.Contains(line, "geheim"), "the log has no ids: %s", line)
	eventually(t, "it is in the queue, and not on its way to the source", func() bool {
		n, err := ch.QueuePurge(queue, false)
		return err == nil && n > 0
	})
	publish(t, publisher(t, url, nil), queue, "behind it")
	for receive(t, s).Message().ID != "behind it" {
		continue
	}
}

// writer is an io.Writer that is a function.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
