package httpidem_test

import (
	"context"
	"net/http/httptrace"
	"net/textproto"
)

// withTrace reports informational answers.
func withTrace(ctx context.Context, got func(code int, h textproto.MIMEHeader)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		got(code, h)
		return nil
	}})
}
