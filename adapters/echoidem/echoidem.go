package echoidem

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// The field by which a handler tells the guard what it did; it is not sent on.
const outcome = "Idempotency-Outcome"

// Middleware guards the handlers that come after it. A repeat gets the first answer. Inside,
// request and response of the context are those of the guard: what handlers write is held back
// until the record has it, and the context does not end when the client hangs up. Afterwards they
// are what they were. It is safe for concurrent use.
//
// An error of a guarded handler is answered by the server's HTTPErrorHandler before the record is
// made, without its marks, and is returned as well, for middleware outside; the answer is committed
// by then, which an error handler has to respect, as echo's own does. [retrysafe.NothingDone]
// around an error lets a repeat run, whatever the status; [retrysafe.InDoubt] leaves the key in
// doubt. Unlike with echo alone, an informational status (1xx) goes out at once and is not the
// last.
func Middleware(m *httpidem.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			front, request := c.Response(), c.Request()
			around := &early{front}
			m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if w == http.ResponseWriter(around) { // nothing is guarded
					c.SetRequest(r)
					defer c.SetRequest(request)
					err = next(c)
					return
				}
				c.SetResponse(&early{echo.NewResponse(w, c.Logger())})
				c.SetRequest(r)
				defer func() {
					c.SetResponse(front)
					c.SetRequest(request)
				}()
				if err = next(c); err == nil {
					return
				}
				mark(w, r, err)
				err = retrysafe.Unmarked(err)
				c.Echo().HTTPErrorHandler(c, err)
			})).ServeHTTP(around, request)
			return err
		}
	}
}

// mark tells the guard what a marked error means.
func mark(w http.ResponseWriter, r *http.Request, err error) {
	switch o, _ := retrysafe.Marked(err); o {
	case retrysafe.NotDone:
		w.Header().Set(outcome, "not-executed")
	case retrysafe.Doubtful:
		if a, ok := retrysafe.AttemptFrom(r.Context()); ok {
			_ = a.Doubt(r.Context(), nil) // what cannot be recorded lapses into doubt
		}
	}
}
