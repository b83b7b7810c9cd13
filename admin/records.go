package admin

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/storeapi"
)

// recordJSON is a record in a list. It has nothing that is a secret.
type recordJSON struct {
	Ref       string     `json:"ref" doc:"name of the record in paths of this API"`
	Hash      string     `json:"hash" doc:"name of the record for people, as in the service's log"`
	Namespace string     `json:"namespace" doc:"the service"`
	Layer     string     `json:"layer" doc:"what made the record: gw, http, fn, tx, mq, …"`
	Operation string     `json:"operation" doc:"the operation, such as POST /orders"`
	State     string     `json:"state" doc:"issued, in-progress, in-doubt, completed, failed or released"`
	OnDoubt   string     `json:"on_doubt" doc:"policy for an outcome in doubt: refuse or reexecute"`
	Cause     string     `json:"cause,omitempty" doc:"why the record is in doubt or released, in one word; crash if its lease ended"`
	Attempt   int        `json:"attempt" doc:"how often the key was acquired"`
	Fence     uint64     `json:"fence" doc:"grows with each attempt; give it to resolve"`
	Lease     float64    `json:"lease_s" doc:"seconds that the holder is believed to live; 0 without one"`
	Age       float64    `json:"age_s" doc:"seconds since the doubt began; without a doubt, since the record changed"`
	Since     *time.Time `json:"doubt_since,omitempty" doc:"when the doubt began; an attempt that only asks about it leaves it as it is"`
	Created   time.Time  `json:"created" doc:"when the key was first used"`
	Updated   time.Time  `json:"updated" doc:"when the record changed"`
	Expires   *time.Time `json:"expires,omitempty" doc:"when it is forgotten; absent: never"`
}

// recordsJSON is a page of records.
type recordsJSON struct {
	Records    []recordJSON `json:"records" doc:"the records"`
	Unreadable int          `json:"unreadable" doc:"records of this page that this version cannot read"`
	Read       int          `json:"read" doc:"records that were read for this page, with those that it does not show"`
	Scans      bool         `json:"scans" doc:"true if the store has no index for the listing and reads all its records, so that a page can be short or empty and be followed by others"`
	Next       string       `json:"next,omitempty" doc:"the parameter after for the next page; absent after the last one"`
}

func (d *Records) record(rec *retrysafe.Record) recordJSON {
	ref, _ := d.refs.of(rec.Key) // a stored key is valid
	r := recordJSON{
		Ref: ref, Hash: d.Hash(rec.Key), Namespace: rec.Key.Namespace, Layer: rec.Key.Layer, Operation: rec.Key.Operation,
		State: StateOf(rec), OnDoubt: rec.OnDoubt.String(), Cause: ShownCause(rec), Attempt: rec.Attempt, Fence: uint64(rec.Fence),
		Lease: seconds(max(0, rec.LeaseLeft)), Age: seconds(rec.Age()), Created: rec.Created.UTC(), Updated: rec.Updated.UTC(),
	}
	if !rec.DoubtSince.IsZero() {
		since := rec.DoubtSince.UTC()
		r.Since = &since
	}
	if !rec.Expires.IsZero() {
		at := rec.Expires.UTC()
		r.Expires = &at
	}
	return r
}

// StateOf returns the state of a record in one word; in-doubt is one of them, also while an attempt
// finds out the outcome.
func StateOf(rec *retrysafe.Record) string {
	if rec.InDoubt() || rec.Asked() {
		return "in-doubt"
	}
	return rec.State.String()
}

// ShownCause returns the cause of a record in one word; a record that is in doubt without a cause
// has [storeapi.CauseCrash], or asked while an attempt finds out the outcome.
func ShownCause(rec *retrysafe.Record) string {
	switch {
	case rec.Cause != "":
	case rec.InDoubt():
		return storeapi.CauseCrash
	case rec.Asked():
		return "asked"
	}
	return rec.Cause
}

// ParseState returns the state of a word. in-doubt is not one of a store's.
func ParseState(word string) (storeapi.State, error) {
	for s := retrysafe.StateIssued; s <= retrysafe.StateReleased; s++ {
		if s.String() == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("there is no state %q; use issued, in-progress, completed, failed or released", word)
}

var listParameters = []parameter{
	{"namespace", "string", "only this one, which the server reaches; absent: the server's own"},
	{"layer", "string", "only this layer"},
	{"tenant", "string", "only this tenant"},
	{"operation", "string", "only this operation"},
	{"state", "string", "only this state: issued, in-progress, in-doubt, completed, failed or released"},
	{"older", "integer", "only records that have not changed for so many seconds"},
	{"after", "string", "next of the page before"},
	{"limit", "integer", "records that are read at a time for a page, 1 to 1000; default 100; a page has at most so many, and fewer where some of them are not selected or belong to the audit log: go on while there is next"},
	{"younger", "integer", "only records that have changed in the last so many seconds"},
	{"cause", "string", "only this cause"},
	{"on_doubt", "string", "only this policy: refuse or reexecute"},
}

// listRequest returns what the query selects, and the least age.
func (c *call) listRequest() (req storeapi.ListRequest, older time.Duration, err error) {
	q := c.r.URL.Query()
	req = storeapi.ListRequest{
		Namespace: q.Get("namespace"), Layer: q.Get("layer"), Tenant: q.Get("tenant"), Operation: q.Get("operation"),
	}
	if req.After, err = c.records.refs.after(q.Get("after")); err != nil {
		return req, 0, err
	}
	if !q.Has("namespace") || !c.o.reachesAll() {
		if req.Namespace, err = c.namespace(req.Namespace); err != nil {
			return req, 0, err
		}
	}
	switch word := q.Get("state"); word {
	case "":
	case "in-doubt":
		req.InDoubt, req.Asked = true, true
	default:
		if req.State, err = ParseState(word); err != nil {
			return req, 0, badRequest("there is no such state; use issued, in-progress, in-doubt, completed, failed or released")
		}
	}
	age, err := c.number("older", 0, math.MaxInt32)
	if err != nil {
		return req, 0, err
	}
	req.Limit, err = c.limit()
	return req, time.Duration(age) * time.Second, err
}

func listRecords(c *call) (any, error) { return c.listPage(c.r.URL.Query().Get("tenant")) }

// ofTenantJSON names the tenant whose records are listed.
type ofTenantJSON struct {
	Tenant string `json:"tenant" doc:"only this tenant; in the body, so that it stands in no log"`
}

func listOfTenant(c *call) (any, error) {
	var in ofTenantJSON
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	return c.listPage(in.Tenant)
}

// listPage lists what the query selects. What no index serves is selected here and not by the
// store: it would read all its records for one page, and no one could tell how far it is.
func (c *call) listPage(tenant string) (any, error) {
	req, older, err := c.listRequest()
	if err != nil {
		return nil, err
	}
	req.Tenant = tenant
	younger, err := c.number("younger", math.MaxInt32, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	q := c.r.URL.Query()
	operation, state := req.Operation, q.Get("state")
	if !req.InDoubt && req.State != storeapi.StateInProgress {
		req.Operation, req.State = "", 0
	}
	wants := func(r *recordJSON) bool {
		return r.Age >= older.Seconds() && r.Age < float64(younger) && !reserved(r.Layer) &&
			(operation == "" || r.Operation == operation) && (state == "" || r.State == state) &&
			(!q.Has("cause") || r.Cause == q.Get("cause")) && (!q.Has("on_doubt") || r.OnDoubt == q.Get("on_doubt"))
	}
	return c.records.page(c.r.Context(), req, wants)
}

// partTime bounds the time for a page of a listing or a part of a search, apart from its last call
// of the store. The caller shows how far it is, and can end it.
const partTime = time.Second

// page returns the first records that are wanted. It reads until there are some, or for partTime.
func (d *Records) page(ctx context.Context, req storeapi.ListRequest, wants func(*recordJSON) bool) (out recordsJSON, err error) {
	out.Records = []recordJSON{}
	for begun := time.Now(); ; {
		page, err := d.lister.List(ctx, req)
		if err != nil {
			return recordsJSON{}, err
		}
		out.Read += page.Read
		out.Unreadable += len(page.Unreadable)
		out.Scans = out.Scans || page.Scans
		d.noteSecrets(ctx, page.Records)
		for i := range page.Records {
			if r := d.record(&page.Records[i]); wants(&r) {
				out.Records = append(out.Records, r)
			}
		}
		req.After, out.Next = page.Next, d.refs.next(page.Next)
		if page.Next == "" || len(out.Records) > 0 || time.Since(begun) > partTime {
			return out, nil
		}
	}
}

// keyJSON names a record by the parts of its key.
type keyJSON struct {
	Namespace string `json:"namespace,omitempty" doc:"the service; absent: the server's own"`
	Layer     string `json:"layer" doc:"what made the record: gw, http, fn, tx, mq, …"`
	Tenant    string `json:"tenant" doc:"the caller, or empty"`
	Operation string `json:"operation" doc:"the operation, such as POST /orders"`
	ID        string `json:"id" doc:"the key that the client sent"`
}

// findRecord looks a record up by its key. The key is in the body, so that it stands in no log.
func findRecord(c *call) (any, error) {
	var in keyJSON
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	namespace, err := c.namespace(in.Namespace)
	if err != nil {
		return nil, err
	}
	key := storeapi.StoreKey{Namespace: namespace, Layer: in.Layer, Key: storeapi.Key{Tenant: in.Tenant, Operation: in.Operation, ID: in.ID}}
	if err := key.Validate(); err != nil {
		return nil, badRequest(err.Error())
	}
	rec, err := c.records.Lookup(c.r.Context(), key)
	if err != nil {
		return nil, err
	}
	return c.records.record(&rec), nil
}

// searchJSON is a part of a search for a hash.
type searchJSON struct {
	Records []recordJSON `json:"records" doc:"those of this part that have the hash"`
	Read    int          `json:"read" doc:"records that were read for this part"`
	Next    string       `json:"next,omitempty" doc:"the parameter after for the next part; absent after the last one"`
}

// searchHash reads records until one has the hash, or for partTime. The caller goes on with next.
func searchHash(c *call) (any, error) {
	hash := c.r.URL.Query().Get("hash")
	if !IsHash(hash) {
		return nil, badRequest("hash has 16 hex digits, as lists and logs show them")
	}
	req, _, err := c.listRequest()
	if err != nil {
		return nil, err
	}
	req.Limit = 1000
	found, err := c.records.page(c.r.Context(), req, func(r *recordJSON) bool { return r.Hash == hash })
	return searchJSON{Records: found.Records, Read: found.Read, Next: found.Next}, err
}

// located returns the record that the path names.
func (c *call) located() (storeapi.StoreKey, retrysafe.Record, error) {
	key, err := c.reached(c.r.PathValue("ref"))
	if err != nil {
		return key, retrysafe.Record{}, err
	}
	rec, err := c.records.Lookup(c.r.Context(), key)
	return key, rec, err
}

// forbidden is the problem of a caller that lacks a role for a part of a request.
func (c *call) forbidden(need Roles) error {
	return problem(http.StatusForbidden, "forbidden", c.caller.Name+" has the roles "+c.caller.Roles.String()+", and this needs "+need.String())
}
