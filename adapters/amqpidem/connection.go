package amqpidem

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// link is one connection to the broker with one channel. It is used until it breaks, and does not
// reconnect: a delivery is settled on its own link or not at all.
type link struct {
	raw            *gatherConn
	conn           *amqp.Connection
	channel        *amqp.Channel
	heldDeliveries atomic.Int64 // deliveries that a consumer holds
	acks           *acks
	done           chan struct{} // closed when the channel or the connection has ended
	closeErr       atomic.Pointer[amqp.Error]
}

const (
	handshakeTime = 30 * time.Second
	closeTime     = 3 * time.Second
	// writeTime is how long the broker may not read an ack before the connection counts as broken.
	writeTime = 30 * time.Second
)

// dialer makes links to one broker.
type dialer struct {
	url  string
	user string
	Dialing
}

func newDialer(url string, o Dialing) (*dialer, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil {
		return nil, errURL // the cause shows the URL, with its password
	}
	return &dialer{url: url, user: uri.Username, Dialing: o}, nil
}

// dial connects within ctx, and within half a minute.
func (d *dialer) dial(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	l := &link{done: make(chan struct{})}
	l.acks = newAcks(l)
	var stop func() bool
	config := amqp.Config{
		Locale: "en_US", Properties: amqp.NewConnectionProperties(),
		Dial: func(network, addr string) (net.Conn, error) {
			raw, err := d.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			l.raw = &gatherConn{Conn: raw}
			stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
			return l.raw, nil
		},
	}
	config.Properties.SetClientConnectionName(d.Name)
	if d.TLS != nil {
		config.TLSClientConfig = d.TLS.Clone()
	}
	conn, err := amqp.DialConfig(d.url, config)
	if err == nil {
		l.conn = conn
		l.channel, err = conn.Channel()
	}
	if err != nil || !stop() {
		if stop != nil {
			stop()
		}
		if l.raw != nil {
			_ = l.raw.Close()
		}
		return nil, cannotConnect(ctx, err)
	}
	ended := l.channel.NotifyClose(make(chan *amqp.Error, 1))
	go func() { // ends with the link
		if err, ok := <-ended; ok {
			l.closeErr.Store(err)
		}
		close(l.done)
	}()
	return l, nil
}

// hasEnded reports whether the link has broken.
func (l *link) hasEnded() bool {
	select {
	case <-l.done:
		return true
	default:
		return l.channel.IsClosed()
	}
}

// endReason returns why the link has broken; nil if this side closed it.
func (l *link) endReason() error {
	if err := l.closeErr.Load(); err != nil {
		return err
	}
	return nil
}

// sever closes the connection without a handshake, so that everything that waits on it ends.
func (l *link) sever() { _ = l.raw.Close() }

// limitTime severs the link if do takes longer than d. Otherwise a broker that does not read would
// block a writer for ever.
func (l *link) limitTime(d time.Duration, do func() error) error {
	late := time.AfterFunc(d, l.sever)
	defer late.Stop()
	return do()
}

// writeAtOnce makes one write of what do writes.
func (l *link) writeAtOnce(do func() error) error {
	l.raw.startGathering()
	err := do()
	return errors.Join(err, l.raw.flush())
}

// close ends the connection with a handshake, so that the broker reads the acks before it. It waits
// until the link has ended.
func (l *link) close() {
	_ = l.limitTime(closeTime, func() error { return l.conn.CloseDeadline(time.Now().Add(closeTime)) })
	l.sever()
	<-l.done
}
