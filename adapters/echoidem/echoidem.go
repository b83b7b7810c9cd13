package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// outcomeHeader is the field in which a handler tells the guard what it did; it is not sent to the
// client.
const outcomeHeader = "Idempotency-Outcome"

// Middleware guards the handlers that come after it. A duplicate gets the first answer. Inside, the
// request and the response of the context are those of the guard: what handlers write is held back
// until it is stored, and the context does not end when the client hangs up. Afterwards the context
// has its own request and response again. It is safe for concurrent use.
//
// The server's HTTPErrorHandler answers an error of a guarded handler, without its marks, before
// the answer is stored. The error is also returned to middleware outside. By then the answer is
// committed, which an error handler has to respect, as echo's own does. An error in
// [retrysafe.NothingDone] lets a retry run, whatever the status; one in [retrysafe.InDoubt] leaves
// the key in doubt. Unlike with echo alone, an informational status (1xx) is sent at once, and a
// final status may follow.
func Middleware(m *httpidem.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			front, request := c.Response(), c.Request()
			around := &earlyWriter{front}
			m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if w == http.ResponseWriter(around) { // nothing is guarded
					c.SetRequest(r)
					defer c.SetRequest(request)
					err = next(c)
					return
				}
				c.SetResponse(&earlyWriter{echo.NewResponse(w, c.Logger())})
				c.SetRequest(r)
				defer func() {
					c.SetResponse(front)
					c.SetRequest(request)
				}()
				if err = next(c); err == nil {
					return
				}
				markOutcome(w, r, err)
				err = retrysafe.Unmarked(err)
				c.Echo().HTTPErrorHandler(c, err)
			})).ServeHTTP(around, request)
			return err
		}
	}
}

// markOutcome tells the guard what a marked error means.
func markOutcome(w http.ResponseWriter, r *http.Request, err error) {
	switch o, _ := retrysafe.Marked(err); o {
	case retrysafe.NotDone:
		w.Header().Set(outcomeHeader, "not-executed")
	case retrysafe.Doubtful:
		if a, ok := retrysafe.AttemptFrom(r.Context()); ok {
			// if the store fails, the lease expires, and the key is in doubt
			_ = a.LeaveInDoubt(r.Context(), nil)
		}
	}
}
