package storetest

import (
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// listClause: pages are in a stable order, a record that stays is listed once, and bodies are left
// out.
func listClause(e *env) {
	e.runSubtest("pages", func(e *env) {
		key := e.key()
		var want []string
		for i := range 25 {
			key.ID = fmt.Sprintf("%s-%d", e.salt, i)
			e.claim(e.newRequest(key))
			want = append(want, key.ID)
		}
		for _, limit := range []int{1, 10, 25, 100} {
			got := e.listIDs(storeapi.ListRequest{Operation: key.Operation, Limit: limit})
			assert.Equal(e, e.listIDs(storeapi.ListRequest{Operation: key.Operation, Limit: limit}), got, "the order of a second listing")
			slices.Sort(got)
			slices.Sort(want)
			assert.Equal(e, got, want, "records in pages of %d", limit)
		}
	})
	e.runSubtest("the default is 100 a page", func(e *env) {
		key := e.key()
		for i := range 101 {
			key.ID = fmt.Sprintf("%s-%d", e.salt, i)
			e.claim(e.newRequest(key))
		}
		page := e.listPage(storeapi.ListRequest{Operation: key.Operation})
		assert.Equal(e, len(page.Records), 100, "records of a page of no given size")
		assert.True(e, page.Next != "", "there is another page")
	})
	e.runSubtest("what comes and goes between pages", func(e *env) {
		key := e.key()
		ids := func(i int) string { return fmt.Sprintf("%s-%02d", e.salt, i) }
		var brief []storeapi.Record
		for i := range 10 {
			key.ID = ids(i)
			r := e.claim(e.newRequest(key))
			if i%2 == 1 {
				brief = append(brief, r)
			}
		}
		seen := map[string]int{}
		req := storeapi.ListRequest{Operation: key.Operation, Limit: 2}
		for n := 0; ; n++ {
			page := e.listPage(req)
			for _, r := range page.Records {
				seen[r.Key.ID]++
			}
			if page.Next == "" {
				break
			}
			req.After = page.Next
			key.ID = ids(100 + n)
			e.claim(e.newRequest(key))
			if n < len(brief) {
				end := completeRequest(brief[n], "gone soon")
				end.Retention = e.short
				e.complete(end)
				e.passTime(e.short / 2)
			}
			assert.True(e, n < 100, "the pages come to an end")
		}
		for i := 0; i < 10; i += 2 {
			assert.Equal(e, seen[ids(i)], 1, "times that a record that stayed was listed")
		}
		for id, n := range seen {
			assert.Equal(e, n, 1, "times that %s was listed", id)
		}
	})
	e.runSubtest("what is asked for", func(e *env) {
		base := e.key()
		elsewhere := []storeapi.StoreKey{base, base, base, base}
		elsewhere[0].Namespace, elsewhere[1].Layer, elsewhere[2].Tenant = "n-"+e.salt, "l-"+e.salt, "t-"+e.salt
		elsewhere[3].Operation = "o-" + e.salt
		for _, k := range append(elsewhere, base) {
			e.claim(e.newRequest(k))
		}
		for i, req := range []storeapi.ListRequest{
			{Namespace: elsewhere[0].Namespace},
			{Layer: elsewhere[1].Layer},
			{Tenant: elsewhere[2].Tenant},
			{Operation: elsewhere[3].Operation},
			{Namespace: base.Namespace, Layer: base.Layer, Tenant: base.Tenant, Operation: base.Operation},
		} {
			page := e.listPage(req)
			assert.Equal(e, len(page.Records), 1, "records of %+v", req)
			assert.Equal(e, page.Records[0].Key, append(elsewhere, base)[i], "key of the record of %+v", req)
		}
		wrong := storeapi.ListRequest{Namespace: elsewhere[0].Namespace, Layer: elsewhere[1].Layer}
		assert.Equal(e, len(e.listPage(wrong).Records), 0, "records that fit one of two conditions")
	})
	e.runSubtest("states", func(e *env) {
		key := e.key()
		ids := map[string]string{}
		for _, s := range situations {
			key.ID = e.salt + " " + s.name
			ids[s.name] = key.ID
			s.reach(e, e.newRequest(key))
		}
		key.ID = e.salt + " expired"
		expireRecord(e, e.newRequest(key))
		for state, names := range map[storeapi.State][]string{
			0:                        {running.name, lapsed.name, doubted.name, completed.name, failed.name, released.name},
			storeapi.StateInProgress: {running.name, lapsed.name, doubted.name},
			storeapi.StateCompleted:  {completed.name},
			storeapi.StateFailed:     {failed.name},
			storeapi.StateReleased:   {released.name},
			storeapi.StateIssued:     nil,
		} {
			e.wantListed(storeapi.ListRequest{Operation: key.Operation, State: state}, ids, names)
		}
		doubt := storeapi.ListRequest{Operation: key.Operation, InDoubt: true}
		e.wantListed(doubt, ids, []string{lapsed.name, doubted.name})
		doubt.State = storeapi.StateCompleted
		e.wantListed(doubt, ids, nil)
	})
	e.runSubtest("in doubt and asked about", func(e *env) {
		key := e.key()
		ids := map[string]string{}
		for _, s := range situations {
			key.ID = e.salt + " " + s.name
			ids[s.name] = key.ID
			s.reach(e, e.newRequest(key))
		}
		of := storeapi.ListRequest{Operation: key.Operation, InDoubt: true, Asked: true}
		for _, s := range []situation{lapsed, doubted} {
			key.ID = ids[s.name]
			e.claim(e.askRequest(e.lookup(key)))
		}
		key.ID = ids[running.name]
		forced := e.askRequest(e.lookup(key))
		forced.Force = true
		e.claim(forced) // there was no doubt when it began to ask
		for range 2 {   // the first page may have changed an index
			e.wantListed(of, ids, []string{lapsed.name, doubted.name})
			whole := of
			whole.Namespace, whole.Layer, whole.Tenant = key.Namespace, key.Layer, key.Tenant
			e.wantListed(whole, ids, []string{lapsed.name, doubted.name})
		}
		key.ID = ids[lapsed.name]
		e.beginWork(e.lookup(key))
		e.wantListed(of, ids, []string{doubted.name})
	})
	e.runSubtest("progress", func(e *env) {
		key := e.key()
		ids := map[string]string{}
		for _, s := range situations {
			for _, keeps := range []bool{false, true} {
				name := fmt.Sprint(s.name, keeps)
				key.ID = e.salt + " " + name
				ids[name] = key.ID
				req := e.rerunRequest(key)
				if !keeps {
					s.reach(e, req)
					continue
				}
				first := req // an attempt that stores progress, and whose lease expires
				first.Lease = e.short
				r := e.claim(first)
				e.saveProgress(r, progressAnswer(1, "one"), e.short)
				e.passTime(2 * e.short)
				s.reach(e, req)
			}
		}
		key.ID = e.salt + " expired"
		expireRecord(e, e.newRequest(key))
		keep := func(of ...string) (names []string) {
			for _, name := range of {
				names = append(names, fmt.Sprint(name, true))
			}
			return names
		}
		of := storeapi.ListRequest{Operation: key.Operation, Progress: true}
		for range 2 { // the first page may have changed an index
			e.wantListed(of, ids, keep(running.name, lapsed.name, doubted.name, released.name))
			of.Namespace, of.Layer = key.Namespace, key.Layer
			e.wantListed(of, ids, keep(running.name, lapsed.name, doubted.name, released.name))
			doubt, freed := of, of
			doubt.InDoubt = true
			e.wantListed(doubt, ids, keep(lapsed.name, doubted.name))
			freed.State = storeapi.StateReleased
			e.wantListed(freed, ids, keep(released.name))
		}
	})
	e.runSubtest("progress in pages", func(e *env) {
		key := e.key()
		of := storeapi.ListRequest{Namespace: key.Namespace, Layer: key.Layer, Operation: key.Operation, Progress: true, Limit: 4}
		var want []string
		for i := range 30 {
			key.ID = fmt.Sprintf("%s-%d", e.salt, i)
			r := e.claim(e.newRequest(key))
			e.saveProgress(r, progressAnswer(1, "one"), e.long)
			e.saveProgress(r, progressAnswer(2, "one two"), e.long)
			if i%3 == 0 {
				e.complete(completeRequest(r, "done"))
				continue
			}
			want = append(want, key.ID)
		}
		for range 2 {
			got := e.listIDs(of)
			slices.Sort(got)
			slices.Sort(want)
			assert.Equal(e, got, want, "records in pages of 4")
		}
	})
	e.runSubtest("everything but the body", func(e *env) {
		for _, s := range situations {
			req := e.newRequest(e.key())
			req.Key.Operation += " " + s.name
			req.Fingerprint, req.Binding = printA, bindA
			want := s.reach(e, req)
			page := e.listPage(storeapi.ListRequest{Operation: req.Key.Operation})
			assert.Equal(e, len(page.Records), 1, "records of an operation of its own")
			want.Answer.Body = nil
			e.wantSame(page.Records[0], want, "the listed record, "+s.name)
		}
	})
}

func (e *env) listPage(req storeapi.ListRequest) storeapi.Page {
	e.Helper()
	s, ok := e.Store.(storeapi.Lister)
	assert.True(e, ok, "a store that claims Lister implements it")
	page, err := s.List(e.ctx, req)
	assert.NoError(e, err, "List")
	assert.True(e, page.Read >= len(page.Records)+len(page.Unreadable), "the page has read %d records, and lists %d", page.Read, len(page.Records))
	return page
}

// listIDs returns the ids of all pages, in order.
func (e *env) listIDs(req storeapi.ListRequest) (ids []string) {
	e.Helper()
	for {
		page := e.listPage(req)
		assert.True(e, len(page.Records) <= req.Limit, "a page has at most %d records: got %d", req.Limit, len(page.Records))
		for _, r := range page.Records {
			ids = append(ids, r.Key.ID)
		}
		if page.Next == "" {
			return ids
		}
		assert.True(e, len(page.Records) > 0, "a page before the last has records")
		assert.NotEqual(e, page.Next, req.After, "where the next page begins")
		req.After = page.Next
	}
}

func (e *env) wantListed(req storeapi.ListRequest, ids map[string]string, names []string) {
	e.Helper()
	req.Limit = 100
	got := e.listIDs(req)
	var want []string
	for _, n := range names {
		want = append(want, ids[n])
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Equal(e, got, want, "records of state %v, in doubt only %v", req.State, req.InDoubt)
}
