package servers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Losses say which runs of a script are hit.
var Losses = []Loss{{"reply", LoseReply}, {"request", LoseRequest}}

// Loss is a name for a cut.
type Loss struct {
	Name string
	Cut  Cut
}

// Cut is what a RedisProxy does to one run of a script. Zero means nothing.
type Cut uint8

const (
	// LoseRequest breaks the connection; the server never gets the request.
	LoseRequest Cut = iota + 1
	// LoseReply lets the script run, and breaks the connection before the reply.
	LoseReply
	// LateRequest breaks the connection; the server gets the request when the test calls Deliver.
	LateRequest
	// HoldReply lets the script run; the reply waits until the client has gone.
	HoldReply
)

// RedisProxy is between clients and a server, and does to scripts what its hook says: n counts the
// runs of that script from 1.
type RedisProxy struct {
	*servertest.Proxy

	mu    sync.Mutex
	to    string // for delayed commands
	hook  func(script string, n int) Cut
	names map[string]string // of scripts, by digest
	runs  map[string]int
	late  []func()
}

// StartRedisProxy starts a proxy to a server. It ends with the test.
func StartRedisProxy(t *testing.T, to string) *RedisProxy {
	t.Helper()
	p := &RedisProxy{to: to, names: map[string]string{}, runs: map[string]int{}}
	p.Proxy = servertest.NewProxy(t, to)
	p.Serve(p.serveClient)
	return p
}

// SetHook replaces the hook, and counts runs from 1 again.
func (p *RedisProxy) SetHook(hook func(script string, n int) Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
	clear(p.runs)
}

// Move sends new connections to another server.
func (p *RedisProxy) Move(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
	p.Proxy.Move(to)
}

func (p *RedisProxy) serverAddr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// Ran returns how often the script was called since the hook was set.
func (p *RedisProxy) Ran(script string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[script]
}

// Deliver sends the delayed commands to the server, each on a separate connection, and waits for
// the replies.
func (p *RedisProxy) Deliver() int {
	p.mu.Lock()
	late := p.late
	p.late = nil
	p.mu.Unlock()
	for _, send := range late {
		send()
	}
	return len(late)
}

// nextCut returns what to do with a command.
func (p *RedisProxy) nextCut(words [][]byte) Cut {
	verb := strings.ToUpper(string(words[0]))
	if len(words) < 3 || verb != "EVALSHA" && verb != "EVAL" {
		return 0
	}
	digest := string(words[1])
	if verb == "EVAL" {
		sum := sha1.Sum(words[1])
		digest = hex.EncodeToString(sum[:])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := p.names[digest]
	p.runs[name]++
	if p.hook == nil {
		return 0
	}
	return p.hook(name, p.runs[name])
}

func (p *RedisProxy) serveClient(client, server net.Conn) {
	fates := make(chan Cut, 1<<16)
	gone := make(chan struct{}) // closed when the client has gone
	through := make(chan struct{})
	go func() {
		defer close(through)
		defer client.Close()
		for r := bufio.NewReader(server); ; {
			raw, err := readReply(r)
			if err != nil {
				return
			}
			if raw[0] != '>' { // a push message is not a reply
				switch <-fates {
				case LoseReply:
					_ = client.Close()
				case HoldReply:
					<-gone
				}
			}
			_, _ = client.Write(raw)
		}
	}()
	for r := bufio.NewReader(client); ; {
		raw, words, err := readCommand(r)
		if err != nil {
			break
		}
		what := p.nextCut(words)
		if what == LateRequest {
			p.mu.Lock()
			p.late = append(p.late, func() { p.sendLate(raw) })
			p.mu.Unlock()
		}
		if what == LateRequest || what == LoseRequest {
			_ = client.Close()
			break
		}
		fates <- what
		if _, err := server.Write(raw); err != nil {
			break
		}
	}
	close(gone)
	_ = server.(*net.TCPConn).CloseWrite() //nolint:errcheck,forcetypeassert // it was dialled as that; what was sent before still runs
	<-through
}

// sendLate sends one command to the server and reads the reply.
func (p *RedisProxy) sendLate(raw []byte) {
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.serverAddr())
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = c.Write(raw)
	_, _ = readReply(bufio.NewReader(c))
}

// readCommand reads what a client sends: an array of strings.
func readCommand(r *bufio.Reader) (raw []byte, words [][]byte, err error) {
	raw, err = readReply(r)
	if err != nil {
		return nil, nil, err
	}
	if raw[0] != '*' {
		return nil, nil, errors.New("not a command")
	}
	rest := bufio.NewReader(bytes.NewReader(raw))
	head, _ := rest.ReadString('\n')
	n, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
	for range n {
		size, _ := rest.ReadString('\n')
		k, err := strconv.Atoi(strings.TrimSpace(size[1:]))
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, k+2)
		if _, err := io.ReadFull(rest, word); err != nil {
			return nil, nil, err
		}
		words = append(words, word[:k])
	}
	return raw, words, nil
}

// readReply reads one value of RESP2 or RESP3, unparsed.
func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil || len(line) < 3 {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return line, nil
		}
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return append(line, body...), err
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for range n {
			part, err := readReply(r)
			if err != nil {
				return nil, err
			}
			line = append(line, part...)
		}
	}
	return line, nil
}

// wholeClient is what both adapters implement.
type wholeClient interface {
	redisclient.Client
	redisclient.Pipeliner
	redisclient.Joiner
	redisclient.Nodes
	redisclient.Replicated
}

// namingClient registers the names of the scripts with the proxy.
type namingClient struct {
	wholeClient
	p *RedisProxy
}

func (c *namingClient) registerNames(calls ...redisclient.Call) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for _, call := range calls {
		c.p.names[call.Script.SHA1] = call.Script.Name
		if joined := call.Script.Joined(); joined != nil {
			c.p.names[joined.SHA1] = joined.Name
		}
	}
}

func (c *namingClient) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	c.registerNames(call)
	return c.wholeClient.Eval(ctx, call)
}

func (c *namingClient) EvalMany(ctx context.Context, calls []redisclient.Call) []redisclient.Reply {
	c.registerNames(calls...)
	return c.wholeClient.EvalMany(ctx, calls)
}

// Through connects through the proxy.
func (p *RedisProxy) Through(t *testing.T, adapter string) redisclient.Client {
	t.Helper()
	url := "redis://" + p.Addr
	client := RedisClients[adapter](t, url)
	if adapter == "go-redis" {
		// It gives up a reply that a test holds back before the store's limit for a call: 10 s.
		client = goRedisTo(t, url, 5*time.Second)
	}
	return &namingClient{client.(wholeClient), p} //nolint:errcheck,forcetypeassert // both adapters are
}
