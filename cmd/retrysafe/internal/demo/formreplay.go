package demo

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// copies is how often the attack sends a request again.
const copies = 5

// replayResult is the outcome of the copies of a request.
type replayResult struct {
	Sent     int `json:"sent"`
	Replayed int `json:"replayed"` // got the first answer
	Refused  int `json:"refused"`
	Orders   int `json:"orders"` // that the copies made
}

// formState is what the page shows about a form.
type formState struct {
	Way      string        `json:"way"`
	Orders   int           `json:"orders"` // in the shop's own table
	Wanted   int           `json:"wanted"` // its pages that were sent: the orders meant
	Captured bool          `json:"captured"`
	Replay   *replayResult `json:"replay,omitempty"`
}

// formStates returns nil if the shop does not answer.
func (d *formDesk) formStates(ctx context.Context) []formState {
	all := make([]formState, 0, len(sixForms))
	for _, f := range sixForms {
		e, err := countEffects(ctx, d.shop, d.sceneOf(f.way))
		if err != nil {
			return nil
		}
		s := formState{Way: f.way, Orders: e.Orders}
		d.mu.Lock()
		_, s.Captured = d.lastRequests[f.way]
		s.Wanted = len(d.usedPages[f.way])
		if told, ok := d.replayResults[f.way]; ok {
			s.Replay = &told
		}
		d.mu.Unlock()
		all = append(all, s)
	}
	return all
}

// replayForms sends the last request of each form again, byte for byte, as an attacker would who
// has captured it. base is the address of the forms.
func (d *formDesk) replayForms(ctx context.Context, base string) error {
	d.mu.Lock()
	round := d.round
	d.mu.Unlock()
	var all sync.WaitGroup
	errs := make(chan error, len(sixForms))
	for _, f := range sixForms {
		d.mu.Lock()
		last, ok := d.lastRequests[f.way]
		d.mu.Unlock()
		if !ok {
			continue
		}
		all.Go(func() {
			told, err := d.replayForm(ctx, base, f.way, last)
			d.mu.Lock()
			defer d.mu.Unlock()
			if err == nil && d.round == round {
				d.replayResults[f.way] = told
			}
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *formDesk) replayForm(ctx context.Context, base, way string, last sentForm) (told replayResult, err error) {
	before, err := countEffects(ctx, d.shop, d.sceneOf(way))
	if err != nil {
		return told, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range copies {
		all.Go(func() {
			a, _, err := postForm(ctx, base, "/forms/"+way, last)
			mu.Lock()
			defer mu.Unlock()
			told.Sent++
			switch {
			case err != nil || a.status >= http.StatusBadRequest:
				told.Refused++
			case a.replayed:
				told.Replayed++
			}
		})
	}
	all.Wait()
	after, err := countEffects(ctx, d.shop, d.sceneOf(way))
	told.Orders = after.Orders - before.Orders
	return told, err
}

// postForm sends a form once, to the page at base, and follows no redirect.
func postForm(ctx context.Context, base, path string, s sentForm) (a answer, location string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(s.body))
	if err != nil {
		return a, "", err
	}
	r.GetBody = nil // each call must be one request on the wire
	r.Header.Set("Content-Type", s.contentType)
	r.Header.Set("Origin", base)
	c := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(r)
	if err != nil {
		return a, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, body: string(body), replayed: resp.Header.Get("Idempotency-Replayed") == "true"}, resp.Header.Get("Location"), err
}
