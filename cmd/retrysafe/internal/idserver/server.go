// Package idserver serves ids over HTTP, for programs in any language: ids of a worker number that
// it leases, and ids of tags from ranges. Its paths are those of Meituan's Leaf.
//
//	GET /api/snowflake/get/{key}   an id of 63 bits that sorts by time; the key does not matter
//	GET /api/segment/get/{tag}     the next id of a tag
//	GET /api/time                  this server's time in milliseconds since 1970
//
// An id is text, a number in decimal. With ?count=N the answer is a JSON array of N ids as strings,
// so that JavaScript keeps every digit.
package idserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Options configures a server. All fields but Log are required.
type Options struct {
	Store   storeapi.Store // for worker numbers
	Workers *idgen.WorkersOptions
	Ranges  idgen.Ranges // for tags
	Log     *slog.Logger
}

// MaxCount is the largest number of ids in one answer.
const MaxCount = 10_000

// Server serves ids. Close it when no request runs any more.
type Server struct {
	workerIDs *workerIDs
	segments  *segments
	metrics   *metrics
	mux       *http.ServeMux
	draining  atomic.Bool
}

// New claims a worker number, and returns a server that is ready.
func New(ctx context.Context, o *Options) (*Server, error) {
	m, err := newWorkerIDs(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Server{workerIDs: m, segments: newSegments(o.Ranges), mux: http.NewServeMux()}
	s.metrics = newMetrics(s)
	s.mux.HandleFunc("GET /api/snowflake/get/{key}", s.serveSnowflake)
	s.mux.HandleFunc("GET /api/segment/get/{tag}", s.serveSegment)
	s.mux.HandleFunc("GET /api/time", serveTime)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	s.mux.HandleFunc("GET /readyz", s.serveReady)
	s.mux.Handle("GET /metrics", s.metrics.newHandler())
	s.mux.HandleFunc("/", refusePath)
	return s, nil
}

func refusePath(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeText(w, http.StatusMethodNotAllowed, "Ask with GET.\n")
		return
	}
	writeText(w, http.StatusNotFound, "There is nothing here. Ask GET /api/snowflake/get/{key}, /api/segment/get/{tag}, /api/time, /healthz, /readyz or /metrics.\n")
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Worker describes the current worker number, for people.
func (s *Server) Worker() string { return s.workerIDs.current.Load().held.String() }

// Drain makes /readyz report that no more requests should come.
func (s *Server) Drain() { s.draining.Store(true) }

// Close releases the worker number and ends the background work. No request may run any more.
func (s *Server) Close(ctx context.Context) error {
	s.segments.close()
	return s.workerIDs.close(ctx)
}

// source makes the ids of a request.
type source interface {
	Next(ctx context.Context) (idgen.ID, error)
	NextN(ctx context.Context, n int) ([]idgen.ID, error)
}

func (s *Server) serveSnowflake(w http.ResponseWriter, r *http.Request) {
	if err := s.writeIDs(w, r, s.metrics.snowflake, s.workerIDs.current.Load()); err != nil {
		s.writeError(w, s.metrics.snowflake, err)
	}
}

func (s *Server) serveSegment(w http.ResponseWriter, r *http.Request) {
	err := s.segments.withSource(r.PathValue("tag"), func(from source) error { return s.writeIDs(w, r, s.metrics.segment, from) })
	if err != nil {
		s.writeError(w, s.metrics.segment, err)
	}
}

// errCount is the error for an invalid query.
var errCount = errors.New("write ?count=N with N from 1 to " + strconv.Itoa(MaxCount) + ", or no question mark for one id")

// writeIDs writes one id, or as many as the request asks for. If it returns an error, it has
// written nothing.
func (s *Server) writeIDs(w http.ResponseWriter, r *http.Request, m *kindMetrics, from source) error {
	begun := time.Now()
	if r.URL.RawQuery == "" {
		id, err := from.Next(r.Context())
		if err != nil {
			return err
		}
		setHeader(w, textPlain)
		var buf [20]byte
		_, _ = w.Write(strconv.AppendInt(buf[:0], int64(id), 10)) // the client may be gone
		m.countMade(1, time.Since(begun))
		return nil
	}
	q := r.URL.Query()
	n, err := strconv.Atoi(q.Get("count"))
	if err != nil || n < 1 || n > MaxCount || len(q) != 1 || len(q["count"]) != 1 {
		return errCount
	}
	ids, err := from.NextN(r.Context(), n)
	if err != nil {
		return err
	}
	buf := make([]byte, 0, 24*n)
	for i, id := range ids {
		if i == 0 {
			buf = append(buf, `["`...)
		} else {
			buf = append(buf, `","`...)
		}
		buf = strconv.AppendInt(buf, int64(id), 10)
	}
	buf = append(buf, `"]`...)
	setHeader(w, applicationJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(buf)))
	_, _ = w.Write(buf)
	m.countMade(n, time.Since(begun))
	return nil
}

// writeError answers with an error.
func (s *Server) writeError(w http.ResponseWriter, m *kindMetrics, err error) {
	switch {
	case errors.Is(err, errCount):
		m.countFailed("request")
		writeText(w, http.StatusBadRequest, "No id was made: "+err.Error()+".\n")
	case errors.Is(err, idgen.ErrTag):
		m.countFailed("request")
		writeText(w, http.StatusBadRequest, "This can be no tag: write 1 to 128 bytes of UTF-8, percent-encoded, without control characters, and without a space at either end.\n")
	case errors.Is(err, idgen.ErrNoTag):
		m.countFailed("no-tag")
		writeText(w, http.StatusNotFound, "There is no such tag. Make it once: start retrysafe ids serve with --tag NAME, or insert it into the table.\n")
	case errors.Is(err, idgen.ErrSpent), errors.Is(err, idgen.ErrWentBack), errors.Is(err, idgen.ErrEpochEnds):
		m.countFailed("for-good")
		writeText(w, http.StatusInternalServerError, "No id was made, and a retry will not help: "+err.Error()+".\n")
	case errors.Is(err, context.Canceled):
		m.countFailed("gone")
	default:
		m.countFailed("away")
		w.Header().Set("Retry-After", "1")
		writeText(w, http.StatusServiceUnavailable, "No id was made; try again in a second, or ask another server: "+err.Error()+".\n")
	}
}

func serveTime(w http.ResponseWriter, _ *http.Request) {
	setHeader(w, textPlain)
	_, _ = w.Write(strconv.AppendInt(nil, time.Now().UnixMilli(), 10))
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	switch {
	case s.draining.Load():
		writeText(w, http.StatusServiceUnavailable, "The server is being stopped.\n")
	case !s.workerIDs.hasNumber():
		writeText(w, http.StatusServiceUnavailable, "The worker number was lost, and a new one is being claimed; look at the store.\n")
	default:
		writeText(w, http.StatusOK, "ok\n")
	}
}

// All answers share these values of header fields.
var (
	textPlain       = []string{"text/plain; charset=utf-8"}
	applicationJSON = []string{"application/json"}
	// A cache that serves an id again would give one id to two clients.
	noStore = []string{"no-store"}
)

func setHeader(w http.ResponseWriter, contentType []string) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = contentType, noStore
}

func writeText(w http.ResponseWriter, status int, text string) {
	setHeader(w, textPlain)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
