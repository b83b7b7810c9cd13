package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// shopper is the customer of the page; the password is demo.
const shopper = "ann"

// client sends requests as a shopper's app would, directly to the shop or through the gateway.
type client struct {
	base string // http://host:port
	user string
	http *http.Client
}

func newClient(addr, user string) *client {
	return &client{base: "http://" + addr, user: user, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// answer is a response.
type answer struct {
	status     int
	body       string
	replayed   bool
	retryAfter string
}

func (a answer) equals(b answer) bool { return a.status == b.status && a.body == b.body }

// post sends one request. key may be empty; extra are pairs of header and value.
func (c *client) post(ctx context.Context, path, key string, req request, extra ...string) (answer, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	// Each call must be one request on the wire: net/http must not repeat it.
	r.GetBody = nil
	r.SetBasicAuth(c.user, "demo")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i+1 < len(extra); i += 2 {
		r.Header.Set(extra[i], extra[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, string(b), resp.Header.Get("Idempotency-Replayed") == "true", resp.Header.Get("Retry-After")}, nil
}

// postMany sends the same request n times at once.
func (c *client) postMany(ctx context.Context, n int, path, key string, req request) ([]answer, error) {
	answers := make([]answer, n)
	errs := make([]error, n)
	var start, all sync.WaitGroup
	start.Add(1)
	for i := range n {
		all.Go(func() {
			start.Wait()
			answers[i], errs[i] = c.post(ctx, path, key, req)
		})
	}
	start.Done()
	all.Wait()
	return answers, errors.Join(errs...)
}

// postAndLose sends a request and closes the connection before the answer comes, once acted reports
// that the request had its effect.
func (c *client) postAndLose(ctx context.Context, path, key string, req request, acted func() bool) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	u, err := url.Parse(c.base + path)
	if err != nil {
		return err
	}
	r := &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	r.SetBasicAuth(c.user, "demo")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := r.Write(conn); err != nil {
		return err
	}
	return pollUntil(ctx, acted)
}

// pollUntil polls ok until it returns true or too much time has passed.
func pollUntil(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			return errors.New("demo: the effect that a scene waits for did not come")
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// countEffects asks the shop for the effects in a scene.
func countEffects(ctx context.Context, addr, scene string) (e effects, err error) {
	err = queryShop(ctx, addr, "/effects", scene, &e)
	return e, err
}

// listPayments asks the shop for the payments of a scene.
func listPayments(ctx context.Context, addr, scene string) (all []payment, err error) {
	err = queryShop(ctx, addr, "/payments", scene, &all)
	return all, err
}

func queryShop(ctx context.Context, addr, path, scene string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path+"?scene="+url.QueryEscape(scene), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("demo: the shop does not say what happened: %w", err)
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}
