package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// sceneResult is the result of a scene.
type sceneResult struct {
	Scene    string `json:"scene"`
	Requests int    `json:"requests"`
	Without  string `json:"effects_without"`
	With     string `json:"effects_with"`
	Answers  string `json:"answers_equal"`
	OK       bool   `json:"ok"`
	Error    string `json:"error,omitempty"`
}

// scene runs one side: protected or not. It returns what happened, what the answers were, and
// whether both are as they should be with protection. Without protection they must not be, or the
// scene would show nothing.
type scene struct {
	name     string
	requests int
	side     func(ctx context.Context, s *stage, protected bool) (happened, answers string, ok bool, err error)
}

var scenes = []scene{
	{"50 at once with one key", 50, atOnceScene},
	{"two retries after a lost answer", 3, lostAnswerScene},
	{"killed in the middle (shop | gateway)", 4, killedScene},
	{"other body, same key", 2, otherBodyScene},
	{"another user's key, and a retry", 3, otherUserScene},
	{"payment pressed again after time-outs", 5, pressedAgainScene},
	{"half-done call, plain | with DoTx", 3, halfDoneScene},
	{"form clicked twice, then sent by Back", 3, formTwiceScene},
	{"examined by retrysafe check", sceneRequests, checkScene},
}

func orderCount(e effects) string   { return countNoun(e.Orders, "order") }
func paymentCount(e effects) string { return countNoun(e.Payments, "payment") }

func countNoun(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func yesOrNo(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

func atOnceScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.newClient(protected, "ann"), s.sceneName("at-once", protected)
	answers, err := c.postMany(ctx, 50, "/orders", s.runKey("order-50"), request{Scene: name, Item: "tea", WorkMS: 100})
	if err != nil {
		return "", "", false, err
	}
	equal := true
	for _, a := range answers {
		equal = equal && a.equals(answers[0]) && a.status == http.StatusCreated
	}
	e, err := countEffects(ctx, s.shop.addr, name)
	return orderCount(e), yesOrNo(equal), e.Orders == 1 && equal, err
}

func lostAnswerScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.newClient(protected, "ann"), s.sceneName("lost", protected)
	req := request{Scene: name, Cents: 4200, WorkMS: 50}
	acted := func() bool {
		e, err := countEffects(ctx, s.shop.addr, name)
		return err == nil && e.Payments > 0
	}
	if err := c.postAndLose(ctx, "/payments", s.runKey("pay-lost"), req, acted); err != nil {
		return "", "", false, err
	}
	first, equal, err := postTwice(ctx, c, s.runKey("pay-lost"), req)
	if err != nil {
		return "", "", false, err
	}
	e, err := countEffects(ctx, s.shop.addr, name)
	return paymentCount(e), yesOrNo(equal), e.Payments == 1 && equal && first.status == http.StatusCreated, err
}

// killedScene: with protection the gateway dies, without it the shop. In both cases the client only
// knows that no answer came.
func killedScene(ctx context.Context, s *stage, protected bool) (effect, told string, ok bool, failed error) {
	c, name := s.newClient(protected, "ann"), s.sceneName("killed", protected)
	earlier := request{Scene: name + "-earlier", Cents: 100}
	before, err := c.post(ctx, "/payments", s.runKey("pay-earlier"), earlier)
	if err != nil {
		return "", "", false, err
	}
	if protected {
		// A retry after the kill waits for the lease. A short one could end while the gateway
		// lives, on a machine that is overloaded, so the other scenes have the default.
		if err := s.gateway.restart(ctx, "--lease", "4s"); err != nil {
			return "", "", false, err
		}
		defer func() {
			if failed != nil { // perhaps before the restart below
				failed = errors.Join(failed, s.gateway.restart(ctx))
			}
		}()
	}
	req := request{Scene: name, Cents: 4200}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		// the kill breaks its connection
		_, _ = c.post(ctx, "/payments", s.runKey("pay-killed"), req, headHold, "1")
	}()
	err = pollUntil(ctx, func() bool {
		e, err := countEffects(ctx, s.shop.addr, name)
		return err == nil && e.Payments > 0
	})
	if err != nil {
		return "", "", false, err
	}
	victim := s.shop
	if protected {
		victim = s.gateway
	}
	victim.kill()
	<-gone
	if err := victim.start(ctx); err != nil {
		return "", "", false, err
	}
	retry, err := c.post(ctx, "/payments", s.runKey("pay-killed"), req)
	if err != nil {
		return "", "", false, err
	}
	after, err := c.post(ctx, "/payments", s.runKey("pay-earlier"), earlier)
	if err != nil {
		return "", "", false, err
	}
	e, err := countEffects(ctx, s.shop.addr, name)
	refused := retry.status == http.StatusConflict && strings.Contains(retry.body, `"outcome-unknown"`)
	equal := after.equals(before) && after.replayed
	told = fmt.Sprintf("%d", retry.status)
	if refused {
		told = "409 outcome-unknown; earlier: " + yesOrNo(equal)
	}
	return paymentCount(e), told, e.Payments == 1 && refused && equal, err
}

func otherBodyScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.newClient(protected, "ann"), s.sceneName("other-body", protected)
	if _, err := c.post(ctx, "/payments", s.runKey("pay-body"), request{Scene: name, Cents: 100}); err != nil {
		return "", "", false, err
	}
	second, err := c.post(ctx, "/payments", s.runKey("pay-body"), request{Scene: name, Cents: 99900})
	if err != nil {
		return "", "", false, err
	}
	e, err := countEffects(ctx, s.shop.addr, name)
	refused := second.status == http.StatusUnprocessableEntity
	told := "no"
	if refused {
		told = "422 payload-mismatch"
	}
	return paymentCount(e), told, e.Payments == 1 && refused, err
}

// otherUserScene: two people who happen to use the same key do not share a record.
func otherUserScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	name := s.sceneName("other-user", protected)
	req := request{Scene: name, Cents: 100}
	bob, err := s.newClient(protected, "bob").post(ctx, "/payments", s.runKey("pay-shared"), req)
	if err != nil {
		return "", "", false, err
	}
	ann, equal, err := postTwice(ctx, s.newClient(protected, "ann"), s.runKey("pay-shared"), req)
	if err != nil {
		return "", "", false, err
	}
	e, err := countEffects(ctx, s.shop.addr, name)
	apart := ann.body != bob.body && !ann.replayed
	told := yesOrNo(equal)
	if equal && apart {
		told = "yes, to each their own"
	}
	return paymentCount(e), told, e.Payments == 2 && apart && equal, err
}

// postTwice sends a request two times, and reports whether both answers are the same.
func postTwice(ctx context.Context, c *client, key string, req request) (first answer, equal bool, err error) {
	first, err = c.post(ctx, "/payments", key, req)
	if err != nil {
		return first, false, err
	}
	again, err := c.post(ctx, "/payments", key, req)
	return first, first.equals(again), err
}

// pressedAgainScene is the payment that is charged twice: the charge works, the answer is too slow,
// and the user presses again.
func pressedAgainScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.newClient(protected, "ann"), s.sceneName("pressed", protected)
	req := request{Scene: name, Cents: 4200, WorkMS: 900}
	for range 3 {
		short, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		_, _ = c.post(short, "/payments", s.runKey("pay-again"), req)
		cancel()
	}
	first, err := c.post(ctx, "/payments", s.runKey("pay-again"), req)
	// If the disk was slow, the presses gave up on their claims. The claims are being released, or
	// the file is busy, and the gateway says when to retry.
	for end := time.Now().Add(patience); err == nil && first.status != http.StatusCreated && first.retryAfter != "" && time.Now().Before(end); {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return "", "", false, ctx.Err()
		}
		first, err = c.post(ctx, "/payments", s.runKey("pay-again"), req)
	}
	if err != nil {
		return "", "", false, err
	}
	again, err := c.post(ctx, "/payments", s.runKey("pay-again"), req)
	if err != nil {
		return "", "", false, err
	}
	equal := first.equals(again)
	e, err := countEffects(ctx, s.shop.addr, name)
	return paymentCount(e), yesOrNo(equal), e.Payments == 1 && equal && first.status == http.StatusCreated, err
}

// halfDoneScene: the shop dies between the order and its payment. The protection is in the shop
// itself: record and effect in one transaction.
func halfDoneScene(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := newClient(s.shop.addr, "ann"), s.sceneName("half-done", protected)
	path := "/checkout"
	if protected {
		path = "/checkout-tx"
	}
	req := request{Scene: name, Item: "tea", Cents: 4200}
	_, _ = c.post(ctx, path, "checkout-1", req, "X-Demo-Crash", "1") // the connection breaks
	if err := s.shop.awaitDeath(ctx); err != nil {
		return "", "", false, err
	}
	if err := s.shop.start(ctx); err != nil {
		return "", "", false, err
	}
	first, err := c.post(ctx, path, "checkout-1", req)
	if err != nil {
		return "", "", false, err
	}
	again, err := c.post(ctx, path, "checkout-1", req)
	if err != nil {
		return "", "", false, err
	}
	e, err := countEffects(ctx, s.shop.addr, name)
	equal := first.equals(again)
	return orderCount(e) + ", " + paymentCount(e), yesOrNo(equal), e == effects{1, 1} && equal, err
}
