package redisstreamidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
)

// DeadLetters is a mqidem.DeadLetters: a stream of dead letters. It can be used concurrently.
// Concurrent walks see all messages, and two may both see one.
type DeadLetters struct {
	server
	o Options
}

var _ mqidem.DeadLetters = (*DeadLetters)(nil)

// NewDeadLetters returns the dead-letter queue of options. The caller keeps the client.
func NewDeadLetters(c redisclient.Client, options *Options) (*DeadLetters, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &DeadLetters{server{c, o.Timeout}, o}, nil
}

// Groups returns the names of the groups that the stream has; none if there is no such stream.
// [NewDeadLetters] does not require that Options.Group is one of them: the groups of a stream share
// its dead letters.
func (p *DeadLetters) Groups(ctx context.Context) ([]string, error) {
	names, err := parseTexts(p.eval(ctx, groupsScript, []string{p.o.Stream}, nil))
	if err != nil {
		return nil, fmt.Errorf("redisstreamidem: cannot list the groups of the stream: %w", err)
	}
	return names, nil
}

// pageSize is how many dead letters are read at once.
const pageSize = 16

// Walk implements mqidem.DeadLetters.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	keys := []string{p.o.DeadStream}
	last, err := parseTexts(p.eval(ctx, listScript, keys, []string{"", "", "0"}))
	if err != nil {
		return fmt.Errorf("redisstreamidem: cannot look at the dead letters; nothing was changed: %w", err)
	}
	if len(last) == 0 {
		return ctx.Err()
	}
	for from := "-"; ; {
		found, err := parseArray(p.eval(ctx, listScript, keys, []string{from, last[0], strconv.Itoa(pageSize)}))
		if err != nil {
			return fmt.Errorf("redisstreamidem: cannot read dead letters; those before are dealt with: %w", err)
		}
		for _, one := range found {
			id, m, err := p.parseDeadLetter(one)
			if err != nil {
				return err
			}
			verdict, err := see(ctx, m)
			if err != nil {
				return err
			}
			if verdict == mqidem.Remove {
				if _, err := p.eval(ctx, removeScript, keys, []string{id}); err != nil {
					return fmt.Errorf("redisstreamidem: a dead letter is not known to be removed; the next walk shows it if it is there: %w", err)
				}
			}
			from = "(" + id
		}
		if len(found) < pageSize {
			return ctx.Err()
		}
	}
}

func (p *DeadLetters) parseDeadLetter(one any) (string, *mqidem.DeadLetter, error) {
	parts, err := parseArray(one, nil)
	if err != nil || len(parts) != 2 {
		return "", nil, errUnexpectedReply
	}
	id, _ := parts[0].(string)
	f, err := parseTexts(parts[1], nil)
	if err != nil {
		return "", nil, err
	}
	m := entry{id: id, deliveries: 1, fields: f}.message(p.o.Stream)
	why, err := mqidem.ParseReason(m.Headers[mqidem.HeaderDead])
	if err != nil {
		why = mqidem.Reason{Why: mqidem.DeadUnreadable, Source: p.o.Stream, At: m.Published}
	}
	delete(m.Headers, mqidem.HeaderDead)
	return id, &mqidem.DeadLetter{Message: m, Reason: why}, nil
}

// Send implements mqidem.DeadLetters.
func (p *DeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	f := messageFields(m)
	if len(f) > mostFields {
		return errors.New("redisstreamidem: the message has too many headers to be written; it stays in the dead-letter queue")
	}
	reply, err := parseArray(p.eval(ctx, addScript, []string{m.Source}, append([]string{"0", strconv.Itoa(len(f))}, f...)))
	if err == nil && len(reply) > 1 {
		text, _ := reply[1].(string)
		err = explainError(redisclient.Error(text))
	}
	if err != nil {
		return fmt.Errorf("redisstreamidem: the redriven message is not confirmed; it stays in the dead-letter queue: %w", err)
	}
	return nil
}
