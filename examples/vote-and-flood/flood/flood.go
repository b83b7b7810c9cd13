package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
)

type flood struct {
	url, poll string
	voters    int
	choices   []string

	mu      sync.Mutex
	answers map[string]int // how often each came
}

// sendAll sends requests until all are sent or ctx has ended.
func (f *flood) sendAll(ctx context.Context, requests, workers int) {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	numbers := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := range numbers {
				answer := f.sendVote(ctx, client, n)
				f.mu.Lock()
				f.answers[answer]++
				f.mu.Unlock()
			}
		})
	}
	for n := 0; n < requests && ctx.Err() == nil; n++ {
		numbers <- n
	}
	close(numbers)
	group.Wait()
}

// sendVote sends the request with this number, and returns what the answer says.
func (f *flood) sendVote(ctx context.Context, client *http.Client, n int) string {
	poll := f.poll
	if strings.Contains(poll, "%d") {
		poll = strings.ReplaceAll(poll, "%d", fmt.Sprint(n))
	}
	form := url.Values{"poll": {poll}, "choice": {f.choices[n/f.voters%len(f.choices)]}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader(form.Encode()))
	if err != nil {
		return err.Error()
	}
	r.SetBasicAuth(fmt.Sprint("voter-", n%f.voters), "")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(r)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	answer := fmt.Sprint(resp.StatusCode)
	if problem, ok := httpidem.ProblemFrom(resp); ok {
		return answer + " " + problem.Code
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	if resp.Header.Get("Idempotency-Replayed") == "true" {
		answer += " replayed"
	}
	return answer
}
