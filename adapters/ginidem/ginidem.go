package ginidem

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Middleware guards the handlers that come after it. A duplicate gets the first answer, and the
// chain is aborted. Inside, c.Writer and c.Request are those of the guard: what handlers write is
// held back until it is stored, and the context does not end when the client hangs up. Afterwards c
// has its own writer and request again, so that middleware outside sees the status and the size of
// what was sent. It is safe for concurrent use.
//
// A final status without a body (c.Status) is an answer like any other. Unlike with gin alone, an
// informational status (1xx) is sent at once.
func Middleware(m *httpidem.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		outerWriter, outerRequest := c.Writer, c.Request
		ran := false
		front := &outerResponse{outerWriter}
		m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran = true
			c.Request = r
			defer func() { c.Writer, c.Request = outerWriter, outerRequest }()
			if w == http.ResponseWriter(front) { // nothing is guarded
				c.Next()
				return
			}
			own := newInnerResponse(w, r, outerWriter.Status())
			c.Writer = own
			c.Next()
			own.WriteHeaderNow()
		})).ServeHTTP(front, c.Request)
		if !ran {
			c.Abort()
		}
	}
}
