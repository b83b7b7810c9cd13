package admin

import (
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Traffic reports what a gateway does.
type Traffic interface {
	// Routes returns the counts of each route since the start.
	Routes() []Route
	// History returns counts over the last hour, the oldest first.
	History() []Point
}

// Route is a route of a gateway with its counts since the start.
type Route struct {
	Name     string            `json:"name" doc:"the route's pattern"`
	Outcomes map[string]uint64 `json:"outcomes" doc:"requests by outcome"`
}

// Point counts requests of all routes in a span of time.
type Point struct {
	At       time.Time         `json:"at" doc:"end of the span"`
	Span     float64           `json:"span_s" doc:"its length in seconds"`
	Outcomes map[string]uint64 `json:"outcomes" doc:"requests by outcome"`
}

// flowJSON is what a gateway does.
type flowJSON struct {
	Routes  []Route `json:"routes" doc:"counts of each route since the start"`
	History []Point `json:"history" doc:"counts over the last hour, the oldest first"`
}

func showTraffic(c *apiCall) (any, error) {
	out := flowJSON{Routes: []Route{}, History: []Point{}}
	if t := c.o.Traffic; t != nil {
		out.Routes, out.History = append(out.Routes, t.Routes()...), append(out.History, t.History()...)
	}
	return out, nil
}

// meJSON is who the caller is.
type meJSON struct {
	Name      string   `json:"name" doc:"the caller"`
	Roles     []string `json:"roles" doc:"view, reveal, resolve"`
	Namespace string   `json:"namespace" doc:"the namespace that is shown at first"`
	Audit     bool     `json:"audit" doc:"false: nothing can be changed or revealed here"`
	Traffic   bool     `json:"traffic" doc:"true if this is a gateway that reports its traffic"`
	Locks     bool     `json:"locks" doc:"true if the locks of a backend can be seen"`
	Quotas    bool     `json:"quotas" doc:"true if the store reports what tenants use"`
}

func whoAmI(c *apiCall) (any, error) {
	_, quotas := c.records.store.(storeapi.UsageReader)
	return meJSON{
		Name: c.caller.Name, Roles: c.caller.Roles.Names(), Namespace: c.o.Namespace, Audit: c.o.Audit != nil,
		Traffic: c.o.Traffic != nil, Locks: len(c.o.Locks) > 0, Quotas: quotas,
	}, nil
}
