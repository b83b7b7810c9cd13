package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// load is a kind of traffic: the key of the i-th request of a round.
type load struct {
	name string
	key  func(side string, round, i int) string
	warm bool // its keys are completed first
}

var loads = []load{
	{name: "new keys", key: func(side string, round, i int) string {
		return fmt.Sprintf("%s-%d-new-%08d-1234567890", side, round, i)
	}},
	{name: "repeats, cold", key: func(side string, round, i int) string {
		return fmt.Sprintf("%s-%d-new-%08d-1234567890", side, round, i)
	}},
	{name: "repeats, 100 hot keys", key: func(side string, _, i int) string { return fmt.Sprintf("%s-hot-%08d-12345678901234", side, i%100) }, warm: true},
}

func (w *processes) runRound(s *side, l load, round, n, conns int) (figure, error) {
	if l.warm {
		if err := sendRequests(s, 100, 1, func(i int) string { return l.key(s.name, round, i) }); err != nil {
			return figure{}, err
		}
	}
	g0, err := s.gateway.cpuTime()
	if err != nil {
		return figure{}, err
	}
	r0, err := s.redis.cpuTime()
	if err != nil {
		return figure{}, err
	}
	begun := time.Now()
	if err := sendRequests(s, n, conns, func(i int) string { return l.key(s.name, round, i) }); err != nil {
		return figure{}, err
	}
	took := time.Since(begun)
	g1, err := s.gateway.cpuTime()
	if err != nil {
		return figure{}, err
	}
	r1, err := s.redis.cpuTime()
	if err != nil {
		return figure{}, err
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
	return figure{float64(n) / took.Seconds(), per(g1 - g0), per(r1 - r0)}, nil
}

// sendRequests sends n requests over conns connections and checks every answer. The client does as
// little as possible.
func sendRequests(s *side, n, conns int, key func(i int) string) error {
	var all sync.WaitGroup
	errs := make(chan error, conns)
	for c := range conns {
		all.Go(func() {
			conn, err := net.Dial("tcp", s.addr) //nolint:noctx // on loopback
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			buf := make([]byte, 8192)
			for i := c; i < n; i += conns {
				if err := sendRequest(conn, buf, key(i)); err != nil {
					errs <- fmt.Errorf("request %d: %w", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

const requestBody = `{"item":"tea","cents":4200}`

var answerEnd = []byte(`"state":"paid"}`)

func sendRequest(conn net.Conn, buf []byte, key string) error {
	request := "POST /orders HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer opaque\r\nContent-Type: application/json\r\nIdempotency-Key: " + key +
		"\r\nContent-Length: 27\r\n\r\n" + requestBody
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	for got := 0; ; {
		k, err := conn.Read(buf[got:])
		if err != nil {
			return fmt.Errorf("%w after %q", err, buf[:got])
		}
		if got += k; bytes.HasSuffix(buf[:got], answerEnd) || bytes.HasSuffix(buf[:got], []byte("\r\n0\r\n\r\n")) {
			if !bytes.HasPrefix(buf, []byte("HTTP/1.1 201 Created\r\n")) || !bytes.Contains(buf[:got], answerEnd) {
				return fmt.Errorf("the answer is not what was expected:\n%s", buf[:got])
			}
			return nil
		}
		if got == len(buf) {
			return fmt.Errorf("the answer is too long:\n%s", buf)
		}
		if bytes.HasPrefix(buf[:got], []byte("HTTP/1.1 ")) && !bytes.HasPrefix(buf[:got], []byte("HTTP/1.1 201")) {
			return fmt.Errorf("the answer is not what was expected:\n%s", buf[:got])
		}
	}
}
