package admin

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// workerJSON is a worker number of package idgen that a process holds or held.
type workerJSON struct {
	Ref    string  `json:"ref" doc:"name of its record in paths of this API"`
	Number int     `json:"number" doc:"the worker number, a part of each id"`
	Lease  float64 `json:"lease_s" doc:"seconds that the holder is believed to live; 0: nobody holds it now"`
	Fence  uint64  `json:"fence" doc:"grows with each holder"`
}

// listWorkers lists the numbers. Records of numbers are unfinished, which every store has an index
// of.
func listWorkers(c *apiCall) (any, error) {
	req, _, err := c.listRequest(c.r.URL.Query().Get("after"))
	if err != nil {
		return nil, err
	}
	req = storeapi.ListRequest{Namespace: req.Namespace, Layer: "ids", State: storeapi.StateInProgress}
	out := []workerJSON{}
	err = c.records.Each(c.r.Context(), req, func(rec *retrysafe.Record) bool {
		n, err := strconv.Atoi(rec.Key.ID)
		if err != nil || rec.Key.Operation != "worker" {
			return true
		}
		ref, _ := c.records.refs.nameRecord(rec.Key) // a stored key is valid
		out = append(out, workerJSON{Ref: ref, Number: n, Lease: toSeconds(max(0, rec.LeaseLeft)), Fence: uint64(rec.Fence)})
		return true
	}, nil)
	slices.SortFunc(out, func(a, b workerJSON) int { return cmp.Compare(a.Number, b.Number) })
	return out, err
}
