package httpidem_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// tell sends bodies of one user to a handler, and prints the answers.
func tell(h http.Handler, bodies ...string) {
	for _, body := range bodies {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User-Id", "ann")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		told := w.Body.String()
		if p, ok := httpidem.ProblemFrom(w.Result()); ok {
			told = p.Code
		}
		fmt.Println(w.Code, told)
	}
}

func quietEngine() *retrysafe.Engine {
	return retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 bytes or more"), Logger: slog.New(slog.DiscardHandler)})
}

// An app that sends no keys: a double click is one order for 10 seconds, whatever time and place
// the app sends along.
func ExampleOptions_params() {
	orders := 0
	idem := httpidem.New(quietEngine(), &httpidem.Options{
		Tenant:  userOf,
		Key:     httpidem.Params,
		Request: httpidem.RequestOptions{Rule: fingerprint.Rule{Ignore: slices.Concat(fingerprint.TimeFields(), fingerprint.PositionFields())}},
	})
	tell(idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		fmt.Fprint(w, "order ", orders)
	})),
		`{"item":"tea","timestamp":1772366400,"lat":52.51}`,
		`{"timestamp":1772366401,"lat":52.52,"item":"tea"}`,
		`{"item":"coffee","timestamp":1772366401,"lat":52.52}`)
	// Output:
	// 200 order 1
	// 200 order 1
	// 200 order 2
}

// One vote for each voter and poll for the retention, whatever keys the voter sends.
func ExampleOptions_fields() {
	votes := 0
	idem := httpidem.New(quietEngine(), &httpidem.Options{
		Tenant:  userOf,
		Key:     httpidem.Fields,
		Request: httpidem.RequestOptions{Fields: []string{"poll"}, Operation: func(*http.Request) string { return "vote" }},
		Policy:  retrysafe.Policy{Retention: 90 * 24 * time.Hour},
	})
	tell(idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		votes++
		fmt.Fprint(w, "vote ", votes)
	})),
		`{"poll":7,"for":"tea"}`,
		`{"for":"tea","poll":7}`,
		`{"poll":7,"for":"coffee"}`,
		`{"poll":8,"for":"coffee"}`)
	// Output:
	// 200 vote 1
	// 200 vote 1
	// 422 payload-mismatch
	// 200 vote 2
}
