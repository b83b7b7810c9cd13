package servers

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/servertest"
)

// SQLProxy is between clients and a database server, and does what its hook says to messages that
// contain a statement.
type SQLProxy struct {
	*servertest.Proxy

	read  readMessage
	ended chan struct{} // closed when the test has

	mu   sync.Mutex
	Hook func(statement string) Cut
	held chan struct{} // closed when delayed messages may go on
}

// readMessage reads one message of a client, and returns the statement that it runs, if it is
// known. The first message of a connection has none.
type readMessage func(r io.Reader, s *Session) (raw []byte, statement string, err error)

// Session is what a proxy knows of one connection.
type Session struct {
	begun    bool              // the first message was read
	prepared map[string]string // statements by their names
}

// StartSQLProxy starts a proxy in front of the server on a port.
func StartSQLProxy(t *testing.T, port string, read readMessage) *SQLProxy {
	t.Helper()
	p := &SQLProxy{read: read, ended: make(chan struct{}), held: make(chan struct{})}
	p.Proxy = servertest.NewProxy(t, net.JoinHostPort("127.0.0.1", port))
	t.Cleanup(func() { close(p.ended) })
	p.Serve(p.serveClient)
	return p
}

// Set sets the hook, which is used once: the first result that is not zero is the last.
func (p *SQLProxy) Set(word string, what Cut) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	p.Hook = func(statement string) Cut {
		if !strings.Contains(statement, word) {
			return 0
		}
		p.Hook = nil
		return what
	}
	return sync.OnceFunc(func() { close(held) })
}

// Asked reports whether the hook was used.
func (p *SQLProxy) Asked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Hook == nil
}

func (p *SQLProxy) nextCut(statement string) (Cut, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Hook == nil {
		return 0, nil
	}
	return p.Hook(statement), p.held
}

func (p *SQLProxy) serveClient(client, server net.Conn) {
	through, lose := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(through)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			select {
			case <-lose: // it was done, and no client learns it
				return
			default:
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	session := &Session{prepared: map[string]string{}}
	for {
		message, statement, err := p.read(client, session)
		if err != nil {
			break
		}
		session.begun = true
		what, held := p.nextCut(statement)
		switch what {
		case LoseRequest:
			_ = client.Close()
		case LoseReply:
			close(lose)
		case LateRequest:
			select {
			case <-held:
			case <-p.ended:
			}
		}
		if what == LoseRequest {
			break
		}
		if _, err := server.Write(message); err != nil {
			break
		}
	}
	_ = server.(*net.TCPConn).CloseWrite() //nolint:errcheck,forcetypeassert // it was dialled as that; what was sent before still runs
	<-through
}

// PostgresMessage reads a message of PostgreSQL. The first one has no type. A simple query contains
// the statement; a Bind names one that was prepared before.
func PostgresMessage(r io.Reader, s *Session) (raw []byte, statement string, err error) {
	head := 5
	if !s.begun {
		head = 4
	}
	raw = make([]byte, head, 512)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(raw[head-4:])-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, "", err
	}
	if s.begun {
		switch raw[0] {
		case 'Q':
			statement = string(body)
		case 'P': // name, statement
			parts := bytes.SplitN(body, []byte{0}, 3)
			s.prepared[string(parts[0])] = string(parts[1]) + "\x00"
		case 'B': // portal, name
			statement = s.prepared[string(bytes.SplitN(body, []byte{0}, 3)[1])]
		}
	}
	return append(raw, body...), statement, nil
}

// MySQLMessage reads a message of MySQL: three bytes of length, a number, and the command.
func MySQLMessage(r io.Reader, s *Session) (raw []byte, statement string, err error) {
	raw = make([]byte, 4, 512)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, "", err
	}
	body := make([]byte, int(raw[0])|int(raw[1])<<8|int(raw[2])<<16)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, "", err
	}
	const query, prepare = 3, 22
	if s.begun && len(body) > 0 && (body[0] == query || body[0] == prepare) {
		statement = string(body[1:])
	}
	return append(raw, body...), statement, nil
}
