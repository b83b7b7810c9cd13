package check

import (
	"context"
	"io"
	"sync"
	"time"
)

// gateTimeout is when the last bytes are sent although some requests have no connection yet: a
// service that accepts few connections accepts the next one when it has answered.
const gateTimeout = 3 * time.Second

// sendAtOnce sends the operations in one moment: every request but for its last byte, and then all
// the last bytes. The answers are in the order of ops.
func (s *session) sendAtOnce(ctx context.Context, ops []operation) []reply {
	s.mustReserve(ctx, len(ops))
	replies := make([]reply, len(ops))
	gate := make(chan struct{})
	var ready, done sync.WaitGroup
	for i := range ops {
		request := s.buildRequest(&ops[i])
		body := &gatedBody{data: request.Body, gate: gate, arrive: sync.OnceFunc(ready.Done)}
		ready.Add(1)
		done.Go(func() {
			if len(request.Body) == 0 {
				body.arrive()
				<-gate
			}
			replies[i] = s.sender.send(ctx, s.sender.client, request, body, nil)
			body.arrive() // a request that failed before its body was read
		})
	}
	all := make(chan struct{})
	go func() {
		defer close(all)
		ready.Wait() // it ends: each request that is sent arrives
	}()
	opens := time.NewTimer(gateTimeout)
	defer opens.Stop()
	select {
	case <-all:
	case <-opens.C:
	}
	close(gate)
	done.Wait()
	return replies
}

// gatedBody gives its last byte when gate is closed.
type gatedBody struct {
	data   []byte
	gate   <-chan struct{}
	arrive func()
}

func (b *gatedBody) Read(p []byte) (int, error) {
	if len(b.data) > 1 {
		n := copy(p, b.data[:len(b.data)-1])
		b.data = b.data[n:]
		return n, nil
	}
	b.arrive()
	<-b.gate
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}
