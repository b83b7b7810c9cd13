package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// row is the result of a scene.
type row struct {
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
	{"50 at once with one key", 50, atOnce},
	{"two retries after a lost answer", 3, lostAnswer},
	{"killed in the middle (shop | gateway)", 4, killed},
	{"other body, same key", 2, otherBody},
	{"another user's key, and a retry", 3, otherUser},
	{"payment pressed again after time-outs", 5, pressedAgain},
	{"half-done call, plain | with DoTx", 3, halfDone},
	{"form clicked twice, then sent by Back", 3, formAgain},
	{"examined by retrysafe check", sceneRequests, checked},
}

func orders(e effects) string   { return plural(e.Orders, "order") }
func payments(e effects) string { return plural(e.Payments, "payment") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

func atOnce(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.client(protected, "ann"), s.scene("at-once", protected)
	answers, err := c.postMany(ctx, 50, "/orders", s.key("order-50"), request{Scene: name, Item: "tea", WorkMS: 100})
	if err != nil {
		return "", "", false, err
	}
	equal := true
	for _, a := range answers {
		equal = equal && a.same(answers[0]) && a.status == http.StatusCreated
	}
	e, err := count(ctx, s.shop.addr, name)
	return orders(e), yes(equal), e.Orders == 1 && equal, err
}

func lostAnswer(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.client(protected, "ann"), s.scene("lost", protected)
	req := request{Scene: name, Cents: 4200, WorkMS: 50}
	acted := func() bool {
		e, err := count(ctx, s.shop.addr, name)
		return err == nil && e.Payments > 0
	}
	if err := c.postAndLose(ctx, "/payments", s.key("pay-lost"), req, acted); err != nil {
		return "", "", false, err
	}
	first, equal, err := twice(ctx, c, s.key("pay-lost"), req)
	if err != nil {
		return "", "", false, err
	}
	e, err := count(ctx, s.shop.addr, name)
	return payments(e), yes(equal), e.Payments == 1 && equal && first.status == http.StatusCreated, err
}

// killed: with protection the gateway dies, without it the shop. In both cases the client only
// knows that no answer came.
func killed(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.client(protected, "ann"), s.scene("killed", protected)
	earlier := request{Scene: name + "-earlier", Cents: 100}
	before, err := c.post(ctx, "/payments", s.key("pay-earlier"), earlier)
	if err != nil {
		return "", "", false, err
	}
	req := request{Scene: name, Cents: 4200}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		// the kill breaks its connection
		_, _ = c.post(ctx, "/payments", s.key("pay-killed"), req, headHold, "1")
	}()
	err = until(ctx, func() bool {
		e, err := count(ctx, s.shop.addr, name)
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
	retry, err := c.post(ctx, "/payments", s.key("pay-killed"), req)
	if err != nil {
		return "", "", false, err
	}
	after, err := c.post(ctx, "/payments", s.key("pay-earlier"), earlier)
	if err != nil {
		return "", "", false, err
	}
	e, err := count(ctx, s.shop.addr, name)
	refused := retry.status == http.StatusConflict && strings.Contains(retry.body, `"outcome-unknown"`)
	equal := after.same(before) && after.replayed
	told := fmt.Sprintf("%d", retry.status)
	if refused {
		told = "409 outcome-unknown; earlier: " + yes(equal)
	}
	return payments(e), told, e.Payments == 1 && refused && equal, err
}

func otherBody(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.client(protected, "ann"), s.scene("other-body", protected)
	if _, err := c.post(ctx, "/payments", s.key("pay-body"), request{Scene: name, Cents: 100}); err != nil {
		return "", "", false, err
	}
	second, err := c.post(ctx, "/payments", s.key("pay-body"), request{Scene: name, Cents: 99900})
	if err != nil {
		return "", "", false, err
	}
	e, err := count(ctx, s.shop.addr, name)
	refused := second.status == http.StatusUnprocessableEntity
	told := "no"
	if refused {
		told = "422 payload-mismatch"
	}
	return payments(e), told, e.Payments == 1 && refused, err
}

// otherUser: two people who happen to use the same key do not share a record.
func otherUser(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	name := s.scene("other-user", protected)
	req := request{Scene: name, Cents: 100}
	bob, err := s.client(protected, "bob").post(ctx, "/payments", s.key("pay-shared"), req)
	if err != nil {
		return "", "", false, err
	}
	ann, equal, err := twice(ctx, s.client(protected, "ann"), s.key("pay-shared"), req)
	if err != nil {
		return "", "", false, err
	}
	e, err := count(ctx, s.shop.addr, name)
	apart := ann.body != bob.body && !ann.replayed
	told := yes(equal)
	if equal && apart {
		told = "yes, to each their own"
	}
	return payments(e), told, e.Payments == 2 && apart && equal, err
}

// twice sends a request two times, and reports whether both answers are the same.
func twice(ctx context.Context, c *client, key string, req request) (first answer, equal bool, err error) {
	first, err = c.post(ctx, "/payments", key, req)
	if err != nil {
		return first, false, err
	}
	again, err := c.post(ctx, "/payments", key, req)
	return first, first.same(again), err
}

// pressedAgain is the payment that is charged twice: the charge works, the answer is too slow, and
// the user presses again.
func pressedAgain(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := s.client(protected, "ann"), s.scene("pressed", protected)
	req := request{Scene: name, Cents: 4200, WorkMS: 900}
	for range 3 {
		short, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		_, _ = c.post(short, "/payments", s.key("pay-again"), req)
		cancel()
	}
	first, err := c.post(ctx, "/payments", s.key("pay-again"), req)
	// If the disk was slow, the presses gave up on their claims. The claims are being released, or
	// the file is busy, and the gateway says when to retry.
	for end := time.Now().Add(patience); err == nil && first.status != http.StatusCreated && first.retryAfter != "" && time.Now().Before(end); {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return "", "", false, ctx.Err()
		}
		first, err = c.post(ctx, "/payments", s.key("pay-again"), req)
	}
	if err != nil {
		return "", "", false, err
	}
	again, err := c.post(ctx, "/payments", s.key("pay-again"), req)
	if err != nil {
		return "", "", false, err
	}
	equal := first.same(again)
	e, err := count(ctx, s.shop.addr, name)
	return payments(e), yes(equal), e.Payments == 1 && equal && first.status == http.StatusCreated, err
}

// halfDone: the shop dies between the order and its payment. The protection is in the shop itself:
// record and effect in one transaction.
func halfDone(ctx context.Context, s *stage, protected bool) (string, string, bool, error) {
	c, name := newClient(s.shop.addr, "ann"), s.scene("half-done", protected)
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
	e, err := count(ctx, s.shop.addr, name)
	equal := first.same(again)
	return orders(e) + ", " + payments(e), yes(equal), e == effects{1, 1} && equal, err
}
