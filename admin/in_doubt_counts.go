package admin

import (
	"context"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// inDoubtJSON counts what is in doubt by cause and age. It counts at most as many records as the
// parameter limit says.
type inDoubtJSON struct {
	Total  int              `json:"total" doc:"records in doubt under refuse, which wait for a person"`
	More   bool             `json:"more" doc:"true if there are more than were counted"`
	Oldest float64          `json:"oldest_s" doc:"age of the oldest, in seconds"`
	Causes []causeCountJSON `json:"causes" doc:"by cause, the most frequent first"`
	Ages   []ageCountJSON   `json:"ages" doc:"by age"`
}

// causeCountJSON counts the doubts of one cause.
type causeCountJSON struct {
	Cause  string  `json:"cause" doc:"the cause in one word"`
	Count  int     `json:"count" doc:"records"`
	Oldest float64 `json:"oldest_s" doc:"age of the oldest, in seconds"`
}

// ageCountJSON counts the doubts that are younger than a bound and not younger than the one before.
type ageCountJSON struct {
	Under float64 `json:"under_s" doc:"bound in seconds; 0: no bound"`
	Count int     `json:"count" doc:"records"`
}

// ageBounds are a minute, an hour, a day and a week, in seconds. 0 is for older ones.
var ageBounds = []float64{60, 3600, 86400, 604800, 0}

// mostCounted bounds the records that are read to count doubts.
const mostCounted = 10_000

// countParameters select what is counted.
var countParameters = append(slices.Clone(listParameters[:4]),
	parameter{"limit", "integer", "records that are counted at most, 1 to 1000; default 10000; give one to ask often"})

func countInDoubt(c *apiCall) (any, error) {
	req, _, err := c.listRequest("")
	if err != nil {
		return nil, err
	}
	most := mostCounted
	if c.r.URL.Query().Has("limit") {
		most = req.Limit
	}
	req.InDoubt, req.Limit = true, min(most, 1000)
	out := &inDoubtJSON{Causes: []causeCountJSON{}}
	for _, bound := range ageBounds {
		out.Ages = append(out.Ages, ageCountJSON{Under: bound})
	}
	read := 0
	err = c.records.Each(c.r.Context(), req, func(rec *retrysafe.Record) bool {
		if read++; rec.OnDoubt == retrysafe.Refuse {
			out.countRecord(c.records.listedRecord(rec))
		}
		out.More = read >= most
		return !out.More
	}, nil)
	slices.SortFunc(out.Causes, func(a, b causeCountJSON) int { return b.Count - a.Count })
	return out, err
}

func (d *inDoubtJSON) countRecord(r recordJSON) {
	d.Total++
	d.Oldest = max(d.Oldest, r.Age)
	i := slices.IndexFunc(d.Causes, func(c causeCountJSON) bool { return c.Cause == r.Cause })
	if i < 0 {
		i = len(d.Causes)
		d.Causes = append(d.Causes, causeCountJSON{Cause: r.Cause})
	}
	d.Causes[i].Count++
	d.Causes[i].Oldest = max(d.Causes[i].Oldest, r.Age)
	i = slices.IndexFunc(d.Ages, func(a ageCountJSON) bool { return a.Under == 0 || r.Age < a.Under })
	d.Ages[i].Count++
}

// EachInDoubt calls each for the records in doubt in s, with ShownCause and the age by the store's
// clock. It stops after most records, so that it does not read through a store that is full of
// them. An error is that of List.
func EachInDoubt(ctx context.Context, s storeapi.Lister, most int, each func(cause string, age time.Duration)) error {
	req := storeapi.ListRequest{InDoubt: true, Limit: min(most, 1000)}
	for n := 0; n < most; {
		page, err := s.List(ctx, req)
		if err != nil {
			return err
		}
		for i := range page.Records {
			each(ShownCause(&page.Records[i]), page.Records[i].Age())
		}
		n += len(page.Records)
		if req.After = page.Next; page.Next == "" {
			break
		}
	}
	return nil
}
