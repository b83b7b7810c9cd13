package echoidem

import (
	"bufio"
	"net"
	"net/http"

	"github.com/labstack/echo/v5"
)

// earlyWriter is a response of echo that does not treat an informational status as the final one:
// it sends it through the writer below.
type earlyWriter struct{ http.ResponseWriter }

// WriteHeader sends the status.
func (e *earlyWriter) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		if r, err := echo.UnwrapResponse(e.ResponseWriter); err == nil {
			r.ResponseWriter.WriteHeader(status)
		}
		return
	}
	e.ResponseWriter.WriteHeader(status)
}

// Flush implements [http.Flusher], which older libraries use.
func (e *earlyWriter) Flush() { _ = http.NewResponseController(e.ResponseWriter).Flush() }

// Hijack implements [http.Hijacker], which older libraries use.
func (e *earlyWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(e.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController and echo.UnwrapResponse.
func (e *earlyWriter) Unwrap() http.ResponseWriter { return e.ResponseWriter }
