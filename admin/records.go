package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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
	Answers    int          `json:"answers,omitempty" doc:"stored answers that were read for this page, in a search for what an answer has"`
	Sealed     int          `json:"sealed,omitempty" doc:"answers that were not searched because they are encrypted, and this server has no key for them"`
	Next       string       `json:"next,omitempty" doc:"the parameter after for the next page; absent after the last one"`
}

func (d *Records) listedRecord(rec *retrysafe.Record) recordJSON {
	ref, _ := d.refs.nameRecord(rec.Key) // a stored key is valid
	r := recordJSON{
		Ref: ref, Hash: d.Hash(rec.Key), Namespace: rec.Key.Namespace, Layer: rec.Key.Layer, Operation: rec.Key.Operation,
		State: StateOf(rec), OnDoubt: rec.OnDoubt.String(), Cause: ShownCause(rec), Attempt: rec.Attempt, Fence: uint64(rec.Fence),
		Lease: toSeconds(max(0, rec.LeaseLeft)), Age: toSeconds(rec.Age()), Created: rec.Created.UTC(), Updated: rec.Updated.UTC(),
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
	{"since", "string", "only records whose key was first used at this time or later, such as 2026-11-28T14:00:00Z"},
	{"until", "string", "only records whose key was first used before this time"},
}

// listRequest returns what the query selects, and the least age. after is the parameter of that
// name.
func (c *apiCall) listRequest(after string) (req storeapi.ListRequest, older time.Duration, err error) {
	q := c.r.URL.Query()
	req = storeapi.ListRequest{
		Namespace: q.Get("namespace"), Layer: q.Get("layer"), Tenant: q.Get("tenant"), Operation: q.Get("operation"),
	}
	if req.After, err = c.records.refs.openAfter(after); err != nil {
		return req, 0, err
	}
	if !q.Has("namespace") || !c.o.reachesAll() {
		if req.Namespace, err = c.resolveNamespace(req.Namespace); err != nil {
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
	age, err := c.numberParameter("older", 0, math.MaxInt32)
	if err != nil {
		return req, 0, err
	}
	req.Limit, err = c.pageLimit()
	return req, time.Duration(age) * time.Second, err
}

func listRecords(c *apiCall) (any, error) {
	return c.listPage(&ofTenantJSON{Tenant: c.r.URL.Query().Get("tenant")})
}

// ofTenantJSON says what a list is of. It is in the body, so that it stands in no log.
type ofTenantJSON struct {
	Tenant   string `json:"tenant,omitempty" doc:"only this tenant"`
	User     string `json:"user,omitempty" doc:"only this caller, as people know it: basic:NAME, jwt:ISSUER|SUBJECT, header:VALUE, bearer:TOKEN, credential:AUTHORIZATION, cookie:VALUE, secret:VALUE or certificate:PEM; a name alone is basic or header"`
	ID       string `json:"id,omitempty" doc:"only records with this key of a client"`
	Location string `json:"location,omitempty" doc:"only records whose stored answer has this Location or Content-Location, or this path of it; needs the role reveal and a reason"`
	Text     string `json:"text,omitempty" doc:"only records whose stored answer has this text of at least 4 bytes; needs the role reveal and a reason"`
	Reason   string `json:"reason,omitempty" doc:"why, for the audit log; required with location and text"`
}

func searchRecords(c *apiCall) (any, error) {
	var in ofTenantJSON
	if err := c.decodeBody(&in); err != nil {
		return nil, err
	}
	return c.listPage(&in)
}

// tenantsOf returns the tenants of a caller whom a request names; nil: it names none. The digests
// are those of the service only with its secret.
func (c *apiCall) tenantsOf(user, tenant, namespace string, names func(httpidem.CallerName) []string) ([]string, error) {
	if user == "" {
		return nil, nil
	}
	if tenant != "" {
		return nil, badRequest("user and tenant both name the caller; give one of them")
	}
	n, err := httpidem.ParseCallerName(user)
	if err != nil {
		return nil, badRequest("user: " + err.Error())
	}
	if namespace != "" {
		if err := c.checkSecret(namespace); err != nil {
			return nil, err
		}
	}
	return names(n), nil
}

// listPage lists what the query and in select. What no index serves is selected here and not by the
// store: it would read all its records for one page, and no one could tell how far it is.
func (c *apiCall) listPage(in *ofTenantJSON) (any, error) {
	answers := AnswerQuery{in.Location, in.Text}
	after := c.r.URL.Query().Get("after")
	var search answerPage
	if !answers.IsZero() {
		var err error
		if search, after, err = c.beginAnswerSearch(&answers, in.Reason, after); err != nil {
			return nil, err
		}
	}
	req, wants, err := c.listSelection(in, after)
	if err != nil {
		return nil, err
	}
	if answers.IsZero() {
		return c.records.readPage(c.r.Context(), req, wants)
	}
	req.Limit = min(req.Limit, answersOfPage)
	return c.searchAnswers(&search, answers, req, wants)
}

// wantsRecord reports whether a record of a page is wanted.
type wantsRecord func(*retrysafe.Record, *recordJSON) (bool, error)

// listSelection returns what the query and in select: for the store, and of what it lists.
func (c *apiCall) listSelection(in *ofTenantJSON, after string) (req storeapi.ListRequest, wants wantsRecord, err error) {
	req, older, err := c.listRequest(after)
	if err != nil {
		return req, nil, err
	}
	req.Tenant = in.Tenant
	sel := Selection{ID: in.ID}
	if sel.Tenants, err = c.tenantsOf(in.User, in.Tenant, req.Namespace, c.records.TenantsOf); err != nil {
		return req, nil, err
	}
	younger, err := c.numberParameter("younger", math.MaxInt32, math.MaxInt32)
	if err != nil {
		return req, nil, err
	}
	if sel.Since, err = c.timeParameter("since"); err != nil {
		return req, nil, err
	}
	if sel.Until, err = c.timeParameter("until"); err != nil {
		return req, nil, err
	}
	q := c.r.URL.Query()
	operation, state := req.Operation, q.Get("state")
	if !req.InDoubt && req.State != storeapi.StateInProgress {
		req.Operation, req.State = "", 0
	}
	return req, func(rec *retrysafe.Record, r *recordJSON) (bool, error) {
		return r.Age >= older.Seconds() && r.Age < float64(younger) && !isReservedLayer(r.Layer) && sel.Selects(rec) &&
			(operation == "" || r.Operation == operation) && (state == "" || r.State == state) &&
			(!q.Has("cause") || r.Cause == q.Get("cause")) && (!q.Has("on_doubt") || r.OnDoubt == q.Get("on_doubt")), nil
	}, nil
}

// timeParameter returns a time of the query; zero if there is none.
func (c *apiCall) timeParameter(name string) (time.Time, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, badRequest(name + " is a time such as 2026-11-28T14:00:00Z")
	}
	return at, nil
}

// pageTime bounds the time for a page of a listing or a part of a search, apart from its last call
// of the store. The caller shows how far it is, and can end it.
const pageTime = time.Second

// readPage returns the first records that are wanted. It reads until there are some, or for
// pageTime.
func (d *Records) readPage(ctx context.Context, req storeapi.ListRequest, wants wantsRecord) (out recordsJSON, err error) {
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
			r := d.listedRecord(&page.Records[i])
			wanted, err := wants(&page.Records[i], &r)
			if err != nil {
				return recordsJSON{}, err
			}
			if wanted {
				out.Records = append(out.Records, r)
			}
		}
		req.After, out.Next = page.Next, d.refs.sealAfter(page.Next)
		if page.Next == "" || len(out.Records) > 0 || time.Since(begun) > pageTime {
			return out, nil
		}
	}
}

// keyJSON names a record by the parts of its key.
type keyJSON struct {
	Namespace string `json:"namespace,omitempty" doc:"the service; absent: the server's own"`
	Layer     string `json:"layer" doc:"what made the record: gw, http, fn, tx, mq, …"`
	Tenant    string `json:"tenant" doc:"the caller, or empty"`
	User      string `json:"user,omitempty" doc:"the caller as people know it, in place of tenant; see the list of records"`
	Operation string `json:"operation" doc:"the operation, such as POST /orders"`
	ID        string `json:"id" doc:"the key that the client sent"`
}

// findRecord looks a record up by its key. The key is in the body, so that it stands in no log.
func findRecord(c *apiCall) (any, error) {
	var in keyJSON
	if err := c.decodeBody(&in); err != nil {
		return nil, err
	}
	namespace, err := c.resolveNamespace(in.Namespace)
	if err != nil {
		return nil, err
	}
	tenants, err := c.tenantsOf(in.User, in.Tenant, namespace, c.records.TenantsOf)
	if err != nil {
		return nil, err
	}
	if tenants == nil {
		tenants = []string{in.Tenant}
	}
	var rec retrysafe.Record
	for _, tenant := range tenants {
		key := storeapi.StoreKey{Namespace: namespace, Layer: in.Layer, Key: storeapi.Key{Tenant: tenant, Operation: in.Operation, ID: in.ID}}
		if err := key.Validate(); err != nil {
			return nil, badRequest(err.Error())
		}
		if rec, err = c.records.Lookup(c.r.Context(), key); !errors.Is(err, retrysafe.ErrNotFound) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return c.records.listedRecord(&rec), nil
}

// searchJSON is a part of a search for a hash.
type searchJSON struct {
	Records []recordJSON `json:"records" doc:"those of this part that have the hash"`
	Read    int          `json:"read" doc:"records that were read for this part"`
	Next    string       `json:"next,omitempty" doc:"the parameter after for the next part; absent after the last one"`
}

// searchHash reads records until one has the hash, or for pageTime. The caller goes on with next.
func searchHash(c *apiCall) (any, error) {
	hash := c.r.URL.Query().Get("hash")
	if !IsHash(hash) {
		return nil, badRequest("hash has 16 hex digits, as lists and logs show them")
	}
	req, _, err := c.listRequest(c.r.URL.Query().Get("after"))
	if err != nil {
		return nil, err
	}
	req.Limit = 1000
	found, err := c.records.readPage(c.r.Context(), req, func(_ *retrysafe.Record, r *recordJSON) (bool, error) { return r.Hash == hash, nil })
	return searchJSON{Records: found.Records, Read: found.Read, Next: found.Next}, err
}

// findRecord returns the record that the path names.
func (c *apiCall) findRecord() (storeapi.StoreKey, retrysafe.Record, error) {
	key, err := c.keyOf(c.r.PathValue("ref"))
	if err != nil {
		return key, retrysafe.Record{}, err
	}
	rec, err := c.records.Lookup(c.r.Context(), key)
	return key, rec, err
}

// forbiddenProblem is the problem of a caller that lacks a role for a part of a request.
func (c *apiCall) forbiddenProblem(need Roles) error {
	return newProblem(http.StatusForbidden, "forbidden", c.caller.Name+" has the roles "+c.caller.Roles.String()+", and this needs "+need.String())
}
