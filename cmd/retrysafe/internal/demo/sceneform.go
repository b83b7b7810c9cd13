package demo

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

// formTwiceScene is a form of a web page, sent by a double click and by another click after Back.
// The protection is a hidden key and a redirect, in the service with the form.
func formTwiceScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	d := newFormDesk(s.shop.addr, s.runID)
	d.workTime = 100 * time.Millisecond
	defer d.shutdown()
	base, end, err := d.serveForms()
	if err != nil {
		return "", "", false, err
	}
	defer end()
	way := "plain"
	if protected {
		way = "all"
	}
	form, err := openForm(ctx, base+"/forms/"+way)
	if err != nil {
		return "", "", false, err
	}
	type told struct {
		status   int
		location string
		body     string
	}
	send := func() (told, error) {
		a, location, err := postForm(ctx, base, "/forms/"+way, form)
		return told{a.status, location, a.body}, err
	}
	var answers [3]told
	var errs [3]error
	clicked := make(chan struct{})
	go func() {
		defer close(clicked)
		answers[0], errs[0] = send()
	}()
	answers[1], errs[1] = send()
	<-clicked
	answers[2], errs[2] = send()
	if err := errors.Join(errs[:]...); err != nil {
		return "", "", false, err
	}
	e, err := countEffects(ctx, s.shop.addr, d.sceneOf(way))
	equal := answers[0] == answers[1] && answers[1] == answers[2]
	return orderCount(e), yesOrNo(equal), e.Orders == 1 && equal && answers[0].status == http.StatusSeeOther, err
}

// serveForms serves the forms on their own address.
func (d *formDesk) serveForms() (base string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("demo: no free port on loopback: %w", err)
	}
	mux := http.NewServeMux()
	d.addRoutes(mux)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it is closed
	}()
	return "http://" + l.Addr().String(), func() { _ = server.Close(); <-done }, nil
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)

// openForm opens a form as a browser does, and returns the request that it would send.
func openForm(ctx context.Context, page string) (sentForm, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return sentForm{}, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return sentForm{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fields := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(string(text), -1) {
		fields.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	return sentForm{"application/x-www-form-urlencoded", []byte(fields.Encode())}, err
}
