package amqpidem_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// childURL turns the test binary into a process that walks the dead-letter queue of the queue "q"
// at that URL, removes every second message, and stops at the fifth.
const childURL = "RETRYSAFE_TEST_AMQP_CHILD"

func child(url string) int {
	p, err := amqpidem.OpenDeadLetters(context.Background(), url, "q", nil)
	if err == nil {
		n := 0
		err = p.Walk(context.Background(), func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if n++; n == 5 {
				fmt.Println("at the fifth")
				select {}
			}
			return mqidem.Verdict(n % 2), nil
		})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// fillDeadLetters fills the dead-letter queue of "q" with messages "0" to n-1.
func fillDeadLetters(t *testing.T, url string, n int, o *amqpidem.Options) {
	t.Helper()
	s, out := open(t, url, "q", o), publisher(t, url, nil)
	for i := range n {
		publish(t, out, "q", strconv.Itoa(i))
		assert.NoError(t, receive(t, s).Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison, Source: "q"}), "Dead")
	}
	assert.NoError(t, s.Close(), "Close")
}

func bodies(found []*mqidem.DeadLetter) (all []string) {
	for _, p := range found {
		all = append(all, string(p.Message.Body))
	}
	return all
}

// TestWalkKilled: a process that is killed in a walk loses nothing but what it has removed.
func TestWalkKilled(t *testing.T) {
	t.Parallel()
	for _, quorum := range []bool{false, true} {
		url := rabbit(t).vhost(t)
		fillDeadLetters(t, url, 7, &amqpidem.Options{Quorum: quorum, Dialing: quietDialing()})
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childURL+"="+url)
		out, err := c.StdoutPipe()
		assert.NoError(t, err, "a pipe")
		c.Stderr = os.Stderr
		assert.NoError(t, c.Start(), "start a process")
		said, err := bufio.NewReader(out).ReadString('\n')
		assert.NoError(t, c.Process.Kill(), "kill it")
		_ = c.Wait()
		assert.True(t, err == nil && said == "at the fifth\n", "the process said %q: %v", said, err)
		p := deadLetters(t, url, "q")
		eventually(t, "the messages are back", func() bool { return queueDepth(t, url, "q.dead") == 5 })
		seen := map[string]bool{}
		for _, body := range bodies(listDead(t, p)) {
			seen[body] = true
		}
		assert.Equal(t, seen, map[string]bool{"1": true, "3": true, "4": true, "5": true, "6": true}, "what is a dead letter")
	}
}

// TestWalkCut: a walk returns an error if its connection breaks, its context ends, or its
// DeadLetters is closed. It keeps the messages that it has not removed.
func TestWalkCut(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*proxy, *amqpidem.DeadLetters, context.CancelFunc){
		"cut":    func(p *proxy, _ *amqpidem.DeadLetters, _ context.CancelFunc) { p.Cut() },
		"ended":  func(_ *proxy, _ *amqpidem.DeadLetters, cancel context.CancelFunc) { cancel() },
		"closed": func(_ *proxy, p *amqpidem.DeadLetters, _ context.CancelFunc) { go func() { _ = p.Close() }() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := rabbit(t).vhost(t)
			fillDeadLetters(t, url, 4, &amqpidem.Options{Dialing: quietDialing()})
			cut := startProxy(t, rabbit(t).addr)
			p := deadLetters(t, urlThrough(url, cut.Addr), "q")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			err := p.Walk(ctx, func(inner context.Context, _ *mqidem.DeadLetter) (mqidem.Verdict, error) {
				if n++; n == 2 {
					end(cut, p, cancel)
					if name != "cut" {
						<-inner.Done()
					}
				}
				return mqidem.Keep, nil
			})
			assert.True(t, err != nil && n == 2, "the walk ended at %d: %v", n, err)
			assert.Equal(t, errors.Is(err, context.Canceled), name == "ended", "the error of a context: %v", err)
			assert.Equal(t, errors.Is(err, mqidem.ErrSourceClosed), name == "closed", "the error of a closed one: %v", err)
			eventually(t, "the messages are back", func() bool { return queueDepth(t, url, "q.dead") == 4 })
			assert.Equal(t, bodies(listDead(t, deadLetters(t, url, "q"))), []string{"0", "1", "2", "3"}, "what is a dead letter")
		})
	}
}

// TestWalkOrder: the oldest message comes first, however often walks were broken off and whatever
// arrived meanwhile. Each walk shows the messages that were there when it began.
func TestWalkOrder(t *testing.T) {
	t.Parallel()
	for _, quorum := range []bool{false, true} {
		url := rabbit(t).vhost(t)
		o := &amqpidem.Options{Quorum: quorum, Dialing: quietDialing()}
		fillDeadLetters(t, url, 6, o)
		p, enough := deadLetters(t, url, "q"), errors.New("enough")
		for _, at := range []int{2, 1, 4, 6, 3} {
			n := 0
			err := p.Walk(t.Context(), func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) {
				if n++; n == at {
					return mqidem.Keep, enough
				}
				return mqidem.Keep, nil
			})
			assert.ErrorIs(t, err, enough, "the error of see")
			assert.Equal(t, bodies(listDead(t, p)), []string{"0", "1", "2", "3", "4", "5"}, "behind a walk that was broken off at %d (quorum %v)", at, quorum)
		}
		n := 0
		assert.NoError(t, p.Walk(t.Context(), func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) {
			n++
			fillDeadLetters(t, url, 1, o)
			return mqidem.Remove, nil
		}), "Walk")
		assert.Equal(t, n, 6, "messages that were shown while others came")
		assert.Equal(t, len(listDead(t, p)), 6, "those that came")
	}
}
