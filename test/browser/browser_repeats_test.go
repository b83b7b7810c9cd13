package browsertest_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestBrowserRepeatsByItself tests one click whose answer is lost on a reused connection. The
// browser sends the POST again without telling the page. Only a key makes that one order.
func TestBrowserRepeatsByItself(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]outcome{"plain": {2, 2}, "button": {2, 2}, "prg": {2, 2}, "key": {2, 1}, "token": {2, 1}, "prg+key": {2, 1}, "fetch": {2, 1}} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := openShopWith(t, true)
			s.lost = 1
			b := openTab(t, s.url+"/"+way)
			if ways[way].script != "" {
				b.awaitScript("document.body.dataset.ready", "yes")
			}
			b.click("#go")
			b.awaitText("#done", "Order")
			assert.Equal(t, outcome{len(s.requestKeys()), s.ordersMade()}, want, "requests and orders of one click")
		})
	}
}
