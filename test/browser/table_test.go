package browsertest_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// habits are what people do to a form.
var habits = map[string]func(b *tab, s *shop, requests int){
	// The second click comes while the first request is running: the browser drops the first answer
	// and shows the second.
	"double click": func(b *tab, s *shop, requests int) {
		s.closeGate()
		press := b.aimAt("#go")
		press()
		s.awaitRequests(1)
		press()
		s.awaitRequests(requests)
		s.openGate()
		b.awaitText("#done", "Order")
	},
	"Enter and click": func(b *tab, s *shop, requests int) {
		s.closeGate()
		press := b.aimAt("#go")
		b.runActions("Enter", chromedp.Focus("#item"), chromedp.KeyEvent("\r"))
		s.awaitRequests(1)
		press()
		s.awaitRequests(requests)
		s.openGate()
		b.awaitText("#done", "Order")
	},
	"reload of the answer": func(b *tab, s *shop, requests int) {
		b.click("#go")
		b.awaitText("#done", "Order")
		b.runActions("reload", chromedp.Reload())
		s.awaitRequests(requests)
		b.awaitScript("document.readyState", "complete")
	},
	"back and again": func(b *tab, s *shop, requests int) {
		b.click("#go")
		b.awaitText("#done", "Order")
		if evalScript[bool](b, "!document.getElementById('form')") {
			b.goBack()
		}
		b.awaitScript("!!document.getElementById('go')", "true")
		b.click("#go")
		s.awaitRequests(requests)
		b.awaitText("#done", "Order")
	},
	"script off, double click": func(b *tab, s *shop, requests int) {
		b.scriptOff(true)
		b.runActions("reload", chromedp.Reload())
		s.closeGate()
		press := b.aimAt("#go")
		press()
		s.awaitRequests(1)
		press()
		s.awaitRequests(requests)
		s.openGate()
		b.awaitText("#done", "Order")
	},
	"two tabs": func(b *tab, s *shop, requests int) {
		other := b.openSecondTab(evalScript[string](b, "location.href"))
		b.click("#go")
		b.awaitText("#done", "Order")
		other.click("#go")
		s.awaitRequests(requests)
		other.awaitText("#done", "Order")
	},
}

// outcome is how many requests a habit sends, and how many orders they make.
type outcome struct{ requests, orders int }

// table has what docs/browser.md says of each mechanism alone. A mechanism does not protect against
// a habit if two orders result from one intent.
var table = map[string]map[string]outcome{
	"plain": {
		"double click": {2, 2}, "Enter and click": {2, 2}, "reload of the answer": {2, 2},
		"back and again": {2, 2}, "script off, double click": {2, 2}, "two tabs": {2, 2},
	},
	"button": {
		"double click": {1, 1}, "Enter and click": {1, 1}, "reload of the answer": {2, 2},
		"back and again": {2, 2}, "script off, double click": {2, 2}, "two tabs": {2, 2},
	},
	"prg": {
		"double click": {2, 2}, "Enter and click": {2, 2}, "reload of the answer": {1, 1},
		"back and again": {2, 2}, "script off, double click": {2, 2}, "two tabs": {2, 2},
	},
	"token": {
		"double click": {2, 1}, "Enter and click": {2, 1}, "reload of the answer": {2, 1},
		"back and again": {2, 1}, "script off, double click": {2, 1}, "two tabs": {2, 2},
	},
	"key": {
		"double click": {2, 1}, "Enter and click": {2, 1}, "reload of the answer": {2, 1},
		"back and again": {2, 1}, "script off, double click": {2, 1}, "two tabs": {2, 2},
	},
	"prg+key": {
		"double click": {2, 1}, "Enter and click": {2, 1}, "reload of the answer": {1, 1},
		"back and again": {2, 1}, "script off, double click": {2, 1}, "two tabs": {2, 2},
	},
	"fetch": {
		"double click": {1, 1}, "Enter and click": {1, 1}, "reload of the answer": {1, 1},
		"back and again": {1, 1}, "script off, double click": {2, 2}, "two tabs": {2, 2},
	},
	"combined": {
		"double click": {1, 1}, "Enter and click": {1, 1}, "reload of the answer": {1, 1},
		"back and again": {2, 1}, "script off, double click": {2, 1}, "two tabs": {2, 2},
	},
}

// TestMechanisms does to each form what people do, and counts the orders.
func TestMechanisms(t *testing.T) {
	t.Parallel()
	for mechanism, rows := range table {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			s := openShop(t)
			first := openTab(t, s.url+"/"+mechanism)
			for habit, want := range rows {
				t.Run(habit, func(t *testing.T) {
					// one after the other in one tab, since opening a tab takes a second
					b := first.forSubtest(t)
					s.resetCounts()
					b.scriptOff(false)
					b.runActions("open the form", chromedp.Navigate(s.url+"/"+mechanism))
					if ways[mechanism].script != "" {
						b.awaitScript("document.body.dataset.ready", "yes")
					}
					habits[habit](b, s, want.requests)
					assert.Equal(t, outcome{len(s.requestKeys()), s.ordersMade()}, want, "requests and orders")
				})
			}
		})
	}
}
