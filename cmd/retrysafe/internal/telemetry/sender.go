package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/httpidem"
)

// sender sends the data of one signal to a collector, as OTLP over HTTP (opentelemetry-proto,
// docs/specification.md). It is safe for concurrent use. A try that the specification calls
// retryable is repeated until the settings' timeout: the collector may then count the data twice.
type sender struct {
	settings
	client *http.Client
}

func newSender(signal string) (*sender, error) {
	s, err := settingsOf(signal)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // of the standard library
	transport.TLSClientConfig = s.tls
	return &sender{s, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

const (
	maxAnswer  = 64 << 10 // bytes of an answer that are read
	maxMessage = 200      // bytes of it that go into the log
)

// send sends an encoded TracesData or MetricsData.
func (s *sender) send(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // to memory
		_ = z.Close()
		body = b.Bytes()
	}
	tries := backoff.Backoff{MaxAttempts: math.MaxInt, MinWait: time.Second, MaxWait: time.Minute}
	for n := 1; ; n++ {
		after, retryable, err := s.sendOnce(ctx, body)
		if err == nil || !retryable {
			return err
		}
		wait, again := tries.Next(ctx, n, after)
		if !again || backoff.Pause(ctx, wait) != nil {
			return err
		}
	}
}

// sendOnce sends the data once. Its errors do not have the URL, which may have a password.
func (s *sender) sendOnce(ctx context.Context, body []byte) (after time.Duration, retryable bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return 0, false, errors.New("the collector's address cannot be used")
	}
	for name, values := range s.header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "OTel-OTLP-Exporter-retrysafe")
	if s.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return 0, true, fmt.Errorf("the collector is not reached: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		if err != nil {
			return 0, false, nil //nolint:nilerr // the data was taken
		}
		return 0, false, rejectedError(answer)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		after, retryable = retryAfter(resp.Header), true
	}
	return after, retryable, fmt.Errorf("the collector answered with status %d", resp.StatusCode)
}

// retryAfter returns how long the collector asks to wait, at most an hour; 0 means that it does not
// say.
func retryAfter(h http.Header) time.Duration {
	after, _ := httpidem.RetryAfter(h, time.Now())
	return min(after, time.Hour)
}

// rejectedError returns an error if an answer says that part of the data was refused: it is an
// ExportTraceServiceResponse or ExportMetricsServiceResponse, whose field 1 is the partial success,
// with the number of what was rejected and a message.
func rejectedError(answer []byte) error {
	var count uint64
	var message string
	eachField(answer, func(number protowire.Number, _ uint64, partial []byte) {
		if number != 1 {
			return
		}
		eachField(partial, func(number protowire.Number, value uint64, text []byte) {
			switch number {
			case 1:
				count = value
			case 2:
				message = string(text)
			}
		})
	})
	if count == 0 {
		return nil
	}
	if len(message) > maxMessage {
		message = message[:maxMessage] + "…"
	}
	return fmt.Errorf("the collector refused %d items: %q", count, message)
}

// eachField calls f for each varint and each text or message of an encoded message, up to a fault.
func eachField(message []byte, f func(number protowire.Number, value uint64, text []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		message = message[n:]
		var value uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return
		}
		message = message[n:]
		f(number, value, text)
	}
}
