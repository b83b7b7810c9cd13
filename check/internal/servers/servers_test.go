package servers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/check/internal/servers"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// fault looks for the fault of one broken shop. It returns what it saw, or "" if all is well.
type fault func(*testing.T, *client) string

// faults has the fault of each broken shop.
var faults = map[string]fault{
	"forgets-body":        forgetsBody,
	"forgets-caller":      forgetsCaller,
	"success-before-work": successBeforeWork,
	"check-then-act":      checkThenAct,
	"trusts-strangers":    trustsStrangers,
	"leaks-in-refusals":   leaksInRefusals,
	"loses-header":        losesHeader,
	"answers-early":       answersEarly,
	"forgets-at-restart":  forgetsAtRestart,
	"expires-early":       expiresEarly,
	"takes-first-key":     takesFirstKey,
	"forgets-route":       forgetsRoute,
	"folds-case":          foldsCase,
	"cuts-keys":           cutsKeys,
	"trims-keys":          trimsKeys,
	"folds-accents":       foldsAccents,
	"compares-amount":     comparesAmount,
	"replays-eight-times": replaysEightTimes,
	"keeps-eight-answers": keepsEightAnswers,
}

// TestBroken: each broken shop has its fault, and no other one.
func TestBroken(t *testing.T) {
	t.Parallel()
	assert.Equal(t, len(servers.Broken()), len(faults), "broken shops")
	for _, shop := range servers.Broken() {
		t.Run(shop.Name, func(t *testing.T) {
			t.Parallel()
			c := startShop(t, shop)
			seen := faults[shop.Name](t, c)
			assert.True(t, seen != "", "its fault is seen")
			t.Log(seen)
			if shop.Name == "expires-early" {
				return // a slow machine may see more in a shop that forgets within seconds
			}
			for name, look := range faults {
				if name != shop.Name {
					assert.Equal(t, look(t, c), "", "%s", name)
				}
			}
		})
	}
}

// TestRight: no right shop has a fault.
func TestRight(t *testing.T) {
	t.Parallel()
	for _, shop := range servers.Right() {
		t.Run(shop.Name, func(t *testing.T) {
			t.Parallel()
			c := startShop(t, shop)
			for name, look := range faults {
				assert.Equal(t, look(t, c), "", "%s", name)
			}
		})
	}
}

// TestKilled: a request whose process is killed takes effect at most once, and an answer that says
// that it did is true.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, shop := range servers.Right() {
		t.Run(shop.Name, func(t *testing.T) {
			t.Parallel()
			c := startShop(t, shop)
			for i := range 3 {
				before, key := c.countEffects(t), c.newKey()
				first := make(chan reply, 1)
				go func() { first <- c.send(request{key: key}) }()
				<-time.After(time.Duration(i) * 8 * time.Millisecond)
				assert.NoError(t, c.Restart(t.Context()), "restart")
				<-first
				a := c.sendUntilFinal(t, request{key: key})
				made := c.countEffects(t) - before
				assert.True(t, made == 1 && a.isSuccess() || made <= 1 && a.status == http.StatusConflict,
					"%d effects, and the answer is %d %s", made, a.status, a.body)
			}
		})
	}
}

// sendPaid sends a request that has to succeed.
func sendPaid(t *testing.T, c *client, q request) reply {
	t.Helper()
	before := c.countEffects(t)
	a := c.send(q)
	assert.True(t, a.isSuccess() && a.id() != "", "%+v is answered with %d %s", q, a.status, a.body)
	assert.Equal(t, c.countEffects(t)-before, 1, "effects of %+v", q)
	return a
}

func forgetsBody(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	sendPaid(t, c, request{key: key})
	before := c.countEffects(t)
	a := c.send(request{key: key, body: `{"amount":700}`})
	assert.Equal(t, c.countEffects(t), before, "effects")
	if a.status/100 != 4 {
		return fmt.Sprintf("another body is answered with %d", a.status)
	}
	return ""
}

func forgetsCaller(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	first := sendPaid(t, c, request{key: key})
	a := c.send(request{key: key, caller: servers.Bob})
	if a.id() == first.id() {
		return "another caller gets the first answer"
	}
	return ""
}

func successBeforeWork(t *testing.T, c *client) string {
	t.Helper()
	for _, trouble := range []string{"400", "429", "500"} {
		before, key := c.countEffects(t), c.newKey()
		a := c.send(request{key: key, trouble: trouble})
		assert.True(t, a.status/100 == int(trouble[0]-'0') && c.countEffects(t) == before, "trouble %s is answered with %d", trouble, a.status)
		if a = c.send(request{key: key}); a.isSuccess() && c.countEffects(t) != before+1 {
			return fmt.Sprintf("after %s the retry is answered with %d and has no effect", trouble, a.status)
		}
	}
	return ""
}

// sendTogether sends copies of q at once.
func sendTogether(c *client, copies int, q request) []reply {
	all := make([]reply, copies)
	var sent sync.WaitGroup
	for i := range all {
		sent.Go(func() { all[i] = c.send(q) })
	}
	sent.Wait()
	return all
}

func checkThenAct(t *testing.T, c *client) string {
	t.Helper()
	for range 10 {
		before := c.countEffects(t)
		sendTogether(c, 8, request{key: c.newKey()})
		if n := c.countEffects(t) - before; n != 1 {
			return fmt.Sprintf("%d effects of 8 copies at once", n)
		}
	}
	return ""
}

func trustsStrangers(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	sendPaid(t, c, request{key: key})
	if a := c.send(request{key: key, caller: anonymous}); a.status != http.StatusUnauthorized {
		return fmt.Sprintf("a request without credentials is answered with %d", a.status)
	}
	return ""
}

func leaksInRefusals(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	first := sendPaid(t, c, request{key: key})
	for _, q := range []request{
		{key: key, caller: anonymous}, {key: key, caller: "Bearer unknown"}, {key: key, caller: servers.Bob}, {key: key, body: `{"amount":700}`},
	} {
		if a := c.send(q); !a.isSuccess() && strings.Contains(a.body, first.id()) {
			return fmt.Sprintf("a refusal (%d) has the first answer: %s", a.status, a.body)
		}
	}
	return ""
}

func losesHeader(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	first := sendPaid(t, c, request{key: key})
	before, again := c.countEffects(t), c.send(request{key: key})
	assert.True(t, again.status == first.status && again.body == first.body && c.countEffects(t) == before, "the replay is %d %s", again.status, again.body)
	for _, name := range []string{"Content-Type", "Location", "Etag"} {
		if again.header.Get(name) != first.header.Get(name) {
			return fmt.Sprintf("the replay has %s: %q", name, again.header.Get(name))
		}
	}
	return ""
}

func answersEarly(_ *testing.T, c *client) string {
	for range 10 {
		for _, a := range sendTogether(c, 8, request{key: c.newKey()}) {
			if a.isSuccess() && a.id() == "" {
				return fmt.Sprintf("a copy is answered with %d %s", a.status, a.body)
			}
		}
	}
	return ""
}

func forgetsAtRestart(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	first := sendPaid(t, c, request{key: key})
	before := c.countEffects(t)
	assert.NoError(t, c.Restart(t.Context()), "restart")
	if a := c.sendUntilFinal(t, request{key: key}); a.id() != first.id() || c.countEffects(t) != before {
		return fmt.Sprintf("after a restart the answer is %d %s", a.status, a.body)
	}
	return ""
}

func expiresEarly(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	sendPaid(t, c, request{key: key})
	before := c.countEffects(t)
	<-time.After(2200 * time.Millisecond)
	if a := c.send(request{key: key}); c.countEffects(t) != before {
		return fmt.Sprintf("after two seconds the request has another effect: %d %s", a.status, a.body)
	}
	return ""
}

func takesFirstKey(_ *testing.T, c *client) string {
	if a := c.send(request{key: c.newKey(), second: c.newKey()}); a.status != http.StatusBadRequest {
		return fmt.Sprintf("two keys are answered with %d", a.status)
	}
	return ""
}

func forgetsRoute(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	first := sendPaid(t, c, request{key: key})
	if a := c.send(request{key: key, route: "refunds"}); a.id() == first.id() {
		return "a refund is answered with a payment"
	}
	return ""
}

func foldsCase(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	sendPaid(t, c, request{key: key})
	before := c.countEffects(t)
	if a := c.send(request{key: strings.ToUpper(key)}); a.isSuccess() && c.countEffects(t) == before {
		return "a key in other case gets the first answer"
	}
	return ""
}

// takesForOne pays with one key, and reports whether another gets the first answer.
func takesForOne(t *testing.T, c *client, key, other string) bool {
	t.Helper()
	sendPaid(t, c, request{key: key})
	before := c.countEffects(t)
	a := c.send(request{key: other})
	return a.isSuccess() && c.countEffects(t) == before
}

func cutsKeys(t *testing.T, c *client) string {
	t.Helper()
	if key := c.newKey() + "-and-more-of-it"; takesForOne(t, c, key+"a", key+"b") {
		return "a key that differs in its last character gets the first answer"
	}
	return ""
}

func trimsKeys(t *testing.T, c *client) string {
	t.Helper()
	if key := c.newKey(); takesForOne(t, c, `"`+key+`"`, `"`+key+` "`) {
		return "a key with a space at its end gets the first answer"
	}
	return ""
}

func foldsAccents(t *testing.T, c *client) string {
	t.Helper()
	for _, accented := range []string{"é", "\xe9"} {
		if key := c.newKey(); takesForOne(t, c, key+"e", key+accented) {
			return "a key with an accent gets the first answer"
		}
	}
	return ""
}

func comparesAmount(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	sendPaid(t, c, request{key: key, body: `{"amount":500,"to":"ann"}`})
	if a := c.send(request{key: key, body: `{"amount":700,"to":"ann"}`}); a.isSuccess() {
		return "" // it compares nothing
	}
	if a := c.send(request{key: key, body: `{"amount":500,"to":"bob"}`}); a.isSuccess() {
		return fmt.Sprintf("a body with another member is answered with %d", a.status)
	}
	return ""
}

func replaysEightTimes(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	sendPaid(t, c, request{key: key})
	before := c.countEffects(t)
	for i := range 9 {
		if c.send(request{key: key}); c.countEffects(t) != before {
			return fmt.Sprintf("duplicate %d has an effect", i+1)
		}
	}
	return ""
}

func keepsEightAnswers(t *testing.T, c *client) string {
	t.Helper()
	key := c.newKey()
	sendPaid(t, c, request{key: key})
	for range 8 {
		sendPaid(t, c, request{key: c.newKey()})
	}
	before := c.countEffects(t)
	if c.send(request{key: key}); c.countEffects(t) != before {
		return "after eight newer keys the request has another effect"
	}
	return ""
}
