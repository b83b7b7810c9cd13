package admin

import (
	"math"
	"net/http"
	"time"
)

// logJSON is a part of the audit log of a day.
type logJSON struct {
	Day     string  `json:"day" doc:"the day, in UTC"`
	Entries []Entry `json:"entries" doc:"the last ones first"`
	Before  int     `json:"before,omitempty" doc:"the parameter before for the next part; absent after the last one"`
}

func readAudit(c *apiCall) (any, error) {
	if c.o.Audit == nil {
		return nil, newProblem(http.StatusNotFound, "no-audit", "this server has no audit log")
	}
	day := time.Now().UTC()
	if text := c.r.URL.Query().Get("day"); text != "" {
		var err error
		if day, err = time.Parse(dayForm, text); err != nil {
			return nil, badRequest("day is a date such as 2026-01-31")
		}
	}
	log := c.o.Audit
	if name := c.r.URL.Query().Get("namespace"); name != "" {
		if _, err := c.resolveNamespace(name); err != nil {
			return nil, err
		}
		log = c.auditLog(name)
	}
	before, err := c.numberParameter("before", 0, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	limit, err := c.pageLimit()
	if err != nil {
		return nil, err
	}
	out := logJSON{Day: day.Format(dayForm)}
	out.Entries, out.Before, err = log.Read(c.r.Context(), day, before, limit)
	return out, err
}
