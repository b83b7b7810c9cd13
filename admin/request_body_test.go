package admin_test

import (
	"strings"
	"testing"
)

// TestBodiesWithTwoMeanings: a body that two programs could read differently does nothing.
func TestBodiesWithTwoMeanings(t *testing.T) {
	p := open(t)
	r := p.inDoubt(t)
	p.withMessages(t)
	resolve, discard := "/records/"+r.Ref+"/resolve", "/deadletters/orders/discard"
	for _, c := range []struct{ name, path, body string }{
		{"two outcomes", resolve, `{"fence":1,"outcome":"failed","outcome":"not-done","reason":"x"}`},
		{"two outcomes, one escaped", resolve, `{"fence":1,"outcome":"failed","\u006futcome":"not-done","reason":"x"}`},
		{"another case", resolve, `{"fence":1,"OUTCOME":"not-done","reason":"x"}`},
		{"both cases", resolve, `{"fence":1,"outcome":"failed","failure":"x","Outcome":"not-done","reason":"x"}`},
		{"a long s", resolve, `{"fence":1,"outcome":"not-done","rea\u017fon":"x"}`},
		{"two reasons", discard, `{"all":true,"count":1,"reason":"x","reason":"y"}`},
		{"two counts", discard, `{"all":true,"count":1,"count":2,"reason":"x"}`},
		{"no UTF-8", discard, "{\"all\":true,\"count\":1,\"reason\":\"x\xff\"}"},
		{"half a pair", discard, `{"all":true,"count":1,"reason":"x\ud83d"}`},
		{"the other half", discard, `{"all":true,"count":1,"reason":"x\ude00"}`},
		{"halves in the wrong order", discard, `{"all":true,"count":1,"reason":"\ude00\ud83d"}`},
		{"half a pair and a letter", discard, `{"all":true,"count":1,"reason":"\ud83d\u0061"}`},
		{"nothing", discard, `null`},
		{"a list", discard, `[]`},
	} {
		if status, text := p.ask(t, "rita", "POST", c.path, c.body, nil); status != 400 {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	if len(p.queue.letters) != 1 || p.inDoubt(t).Fence != r.Fence {
		t.Error("something was done")
	}
	if status, text := p.ask(t, "rita", "POST", discard, `{"all":true,"count":1,"reason":"\\ud83d \ud83d\ude00 \u4f60"}`, nil); status != 200 {
		t.Errorf("a pair, and a backslash: %d %s", status, text)
	}
}

// TestParametersThatAreNotKnown: a query that does not say what its sender means selects nothing.
func TestParametersThatAreNotKnown(t *testing.T) {
	p := open(t)
	for path, want := range map[string]string{
		"/records?status=in-doubt":                    "the parameters of this are namespace, layer, tenant, operation, state, ",
		"/records?State=in-doubt":                     "not known",
		"/records?state=in-doubt&state=completed":     "state is there twice",
		"/records?state=in-doubt&state=in-doubt":      "state is there twice",
		"/records?state=in-doubt;cause=x":             "cannot be read",
		"/records?state=%zz":                          "cannot be read",
		"/in-doubt?state=completed":                   "not known",
		"/audit?day=2026-01-01&day=2026-01-02":        "day is there twice",
		"/me?x":                                       "this has no parameters",
		"/records/search?hash=0123456789abcdef&ref=x": "not known",
	} {
		if status, text := p.ask(t, "vera", "GET", path, "", nil); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want 400 with %q", path, status, text, want)
		}
	}
}

// TestSmallPrint: answers say the range that is meant, and text that no one sees is no reason.
func TestSmallPrint(t *testing.T) {
	p := open(t)
	ref := p.inDoubt(t).Ref
	for _, limit := range []string{"-1", "0", "1001", "x"} {
		if status, text := p.ask(t, "vera", "GET", "/records?limit="+limit, "", nil); status != 400 || !strings.Contains(text, "from 1 to 1000") {
			t.Errorf("limit %s: %d %s", limit, status, text)
		}
	}
	if status, text := p.ask(t, "vera", "GET", "/records/"+ref+"%0A", "", nil); status != 404 {
		t.Errorf("a reference with a line break: %d %s", status, text)
	}
	for _, reason := range []string{"\u3164", "\u115f\u1160", "\u2800", "\uffa0 ", " \n "} {
		if status, text := p.ask(t, "rex", "POST", "/records/"+ref+"/reveal", jsonOf(map[string]string{"reason": reason}), nil); status != 400 || !strings.Contains(text, "a reason is needed") {
			t.Errorf("the reason %q: %d %s", reason, status, text)
		}
	}
}
