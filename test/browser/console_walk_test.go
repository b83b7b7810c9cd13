package browsertest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// TestConsoleTabReachesAll: Tab comes to all that can be operated, in the order in which it stands
// there. What has the focus is seen, has a frame, and is not covered.
func TestConsoleTabReachesAll(t *testing.T) {
	t.Parallel()
	for _, width := range []int64{1280, 390} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			o := openOffice(t)
			b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
			b.awaitText(".who", "rita")
			b.runActions("size", chromedp.EmulateViewport(width, 844))
			for name, hash := range o.consoleViews(b) {
				b.openView(hash)
				b.awaitScript(`[...document.querySelectorAll(".list progress")].every((e) => e.hidden)`, "true")
				b.walk(name)
			}
			b.runActions("open the menu", chromedp.Evaluate[chromedp.Void](`document.querySelector(".menu").click()`))
			b.walk("menu")
			assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
		})
	}
}

// walk presses Tab from the beginning of the page to its end.
func (b *tab) walk(name string) {
	b.t.Helper()
	want := evalScript[int](b, `(() => {
		document.querySelectorAll("main details").forEach((d) => { d.open = true; });
		const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.tabIndex >= 0;
		window.stops = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter((e) => seen(e) &&
			!(e.type === "radio" && e !== e.form.elements[e.name][0])); // one of a group
		document.activeElement.blur();
		document.querySelector(".skip").focus();
		return stops.length })()`)
	assert.True(b.t, want > 3, "%s: %d controls", name, want)
	const look = `(() => {
		const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);
		const x = Math.min(Math.max(r.x + r.width / 2, 0), innerWidth - 1), y = Math.min(Math.max(r.y + r.height / 2, 0), innerHeight - 1);
		const top = document.elementFromPoint(x, y);
		const bad = r.bottom <= 0 || r.top >= innerHeight ? "is not in sight" : s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2 ? "has no frame" : !top || !(e.contains(top) || top.contains(e)) ? "is covered" : "";
		return [String(stops.indexOf(e)), bad, e.outerHTML.slice(0, 160)] })()`
	last := -1
	for {
		at := evalScript[[]string](b, look)
		if at[0] == "-1" {
			break // the end of the page
		}
		var i int
		_, err := fmt.Sscan(at[0], &i)
		assert.NoError(b.t, err, "place")
		if i < last {
			break // the beginning
		}
		assert.True(b.t, i <= last+1, "%s: Tab goes from %d to %d: %s", name, last, i, at[2])
		assert.Equal(b.t, at[1], "", "%s: what has the focus: %s", name, at[2])
		last = i
		b.pressKeys("\t")
	}
	assert.Equal(b.t, last, want-1, "%s: the last of %d controls", name, want)
}

// keyboard counts the keys of a task.
type keyboard struct {
	*tab
	keys int
}

func (k *keyboard) press(keys string) {
	k.t.Helper()
	k.keys += len([]rune(keys))
	k.pressKeys(keys)
}

// tabTo presses Tab until an element has the focus.
func (k *keyboard) tabTo(selector string) {
	k.t.Helper()
	for range 60 {
		if evalScript[bool](k.tab, `document.activeElement.matches("`+selector+`")`) {
			return
		}
		k.press("\t")
	}
	k.t.Fatalf("60 times Tab do not come to %s; it is at %s", selector, evalScript[string](k.tab, `document.activeElement.outerHTML.slice(0, 300)`))
}

// done ends a task: it logs its keys, which are not more than most.
func (k *keyboard) done(task string, most int) {
	k.t.Helper()
	k.t.Logf("%s: %d keys", task, k.keys)
	assert.True(k.t, k.keys <= most, "%s: %d keys, and it took %d", task, k.keys, most)
	k.keys = 0
}

// openTasks opens a console with an order of Ann, orders that look like it, a doubt of hers and
// dead letters.
func openTasks(t *testing.T, letters *pile) *office {
	t.Helper()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		letters.dead = append(letters.dead, outbox.DeadMessage{Place: int64(i + 1), ID: fmt.Sprintf("m%d", i+1), Topic: "orders", Added: at, Died: at})
	}
	letters.letters = append(letters.letters, &mqidem.DeadLetter{Message: &mqidem.Message{ID: "l1", Source: "orders"}, Reason: mqidem.Reason{Why: "tries", Consumer: "mailer", At: at}})
	o := openOffice(t, func(o *admin.Options) {
		o.Outboxes = map[string]admin.Outbox{"shop": letters}
		o.DeadLetters = map[string]*admin.DeadLetters{"orders": admin.NewDeadLetters(letters, nil, consoleSecret)}
	})
	for _, key := range []retrysafe.Key{{Tenant: "ann", ID: "order-17"}, {Tenant: "ann", ID: "order-18"}, {Tenant: "bob", ID: "order-17"}} {
		key.Operation = "POST /orders"
		a, _, err := o.engine.Begin(t.Context(), key)
		assert.NoError(t, err, "begin")
		answer, err := httpidem.StoredAnswer(201, nil, []byte(`{"order":1}`))
		assert.NoError(t, err, "answer")
		assert.NoError(t, a.Complete(t.Context(), answer), "complete")
	}
	return o
}

// TestConsoleTasksByKeyboard does what operators do most, with keys alone and without knowing any
// of the page's own: finds a record by caller and order number, resolves a doubt, redrives a dead
// letter.
func TestConsoleTasksByKeyboard(t *testing.T) {
	t.Parallel()
	letters := &pile{}
	o := openTasks(t, letters)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.runActions("size", chromedp.EmulateViewport(1280, 844))
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	b.runActions("axe", chromedp.Evaluate[chromedp.Void](axe+";0"))
	k := &keyboard{tab: b}

	// find Ann's order 17
	evalScript[bool](b, `(document.activeElement.blur(), true)`)
	k.tabTo("nav [href='#/search']")
	k.press("\r")
	b.awaitText("main h1", "Search")
	b.awaitLoaded()
	k.tabTo("#search-list [name=user]")
	k.press("ann\torder-17\r")
	b.awaitScript(`document.activeElement.textContent`, "Found")
	b.awaitText(".found [role=status]", "Shown: 1. That is all.")
	b.isForEverybody("task-found")
	k.tabTo(".found [data-row]")
	k.press("\r")
	hash := o.engine.KeyHash(retrysafe.Key{Tenant: "ann", Operation: "POST /orders", ID: "order-17"})
	b.awaitText("main .meta", hash)
	b.awaitText("main h1", "completed")
	k.done("find a record", 40)

	// resolve a doubt, from the count in the navigation
	evalScript[bool](b, `(document.activeElement.blur(), document.querySelector(".skip").focus(), true)`)
	k.tabTo("nav [href='#/doubts']")
	k.press("\r")
	b.awaitScript(`!!document.querySelector("[data-row]")`, "true")
	k.tabTo("[data-row]")
	k.press("\r")
	b.awaitScript(`!!document.querySelector("#resolve form")`, "true")
	k.tabTo("main button")
	b.awaitScript("document.activeElement.textContent", "Resolve …")
	k.press("\r")
	b.awaitScript("document.activeElement.value", "answer")
	k.press(kb.ArrowDown)
	b.awaitScript("document.activeElement.value + document.activeElement.checked", "donetrue")
	k.tabTo("#resolve [name=reason]")
	k.press("payment 4711 is in the bank's list\t\r")
	b.awaitText(".notice", "Resolved")
	b.awaitScript(`document.activeElement.className + document.activeElement.role`, "notice goodstatus")
	b.awaitScript("document.title", "(7) ")
	b.isForEverybody("task-resolved")
	k.done("resolve a doubt", 60)
	// and from there back to the rest
	k.press("\t\r")
	b.awaitText(".total", "7")
	k.keys = 0

	// redrive a dead letter
	evalScript[bool](b, `(document.activeElement.blur(), document.querySelector(".skip").focus(), true)`)
	k.tabTo("nav [href='#/messages']")
	k.press("\r")
	b.awaitCount("main rs-pile input[name=one]", "4")
	k.tabTo("[name=one]")
	k.press(" ")
	b.awaitText("main summary", "Redrive … (chosen: 1)")
	k.tabTo("main summary")
	k.press("\r\t")
	b.awaitScript("document.activeElement.selectedOptions[0].textContent", "Those that are chosen in the list: 1")
	k.tabTo("main [name=reason]")
	k.press("the mail server is back\t\r")
	b.awaitText(".notice", "Redriven: 1.")
	b.awaitScript(`document.activeElement.className + document.activeElement.role`, "notice goodstatus")
	b.isForEverybody("task-redriven")
	did, _ := letters.outboxDone()
	assert.Equal(t, did, "redrive m1", "what was redriven")
	k.done("redrive a dead letter", 50)
	assert.Equal(t, evalScript[string](b, `wrong.join("\n")`), "", "what the page complained about")
}

// TestConsoleLetterLeadsToItsRecord: from a dead letter that is in doubt, a link leads to its
// record, where it is resolved. A letter without a record has none.
func TestConsoleLetterLeadsToItsRecord(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitText(".who", "rita")
	b.openView("#/messages")
	b.awaitCount("main rs-pile input[name=one]", "5")
	b.awaitCount("main .letters a", "1")
	b.focusOn("main .letters a")
	assert.Equal(t, evalScript[string](b, `document.activeElement.closest("li").querySelector("[name=one]").value`), o.engine.KeyHash(doubtKey("doubt-0").Key), "the letter")
	b.pressKeys("\r")
	b.awaitText(".found", "Found after")
	b.focusOn(".found [data-row]")
	b.pressKeys("\r")
	b.awaitText("main h1", "in doubt")
	b.awaitText("main .meta", o.engine.KeyHash(doubtKey("doubt-0").Key))
	b.awaitScript(`!!document.querySelector("#resolve form")`, "true")
}

// TestConsoleKeepsTheFocus: what a person does with a key leaves the focus near it: the rows that
// More shows, a row that was loaded again, and the button of a form that was refused.
func TestConsoleKeepsTheFocus(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	b := openConsole(t, o.url+"/#token=rsadmin_rita", "en")
	b.awaitText(".who", "rita")
	const row = `[...document.querySelectorAll("[data-row]")].indexOf(document.activeElement)`
	for i := range 120 {
		o.completeKey(t, fmt.Sprintf("more-%d", i))
	}
	b.openView("#/search?list=1&state=completed")
	b.awaitText(".found", "There may be more.")
	shown := evalScript[int](b, `document.querySelectorAll("[data-row]").length`)
	b.focusOn(".found .list button")
	b.pressKeys("\r")
	b.awaitText(".found", "Shown: 250. That is all.")
	b.awaitScript(`"at " + `+row, fmt.Sprintf("at %d", shown))

	b.openView("#/doubts")
	b.awaitScript(`document.querySelectorAll("[data-row]").length`, "8")
	b.pressKeys("jjj")
	b.awaitScript(row, "2")
	evalScript[bool](b, `(document.activeElement.mark = true)`)
	b.pressKeys("r")
	b.awaitScript(`document.querySelector("main").contains(document.activeElement) && !document.activeElement.mark`, "true")

	b.openView(b.aDoubt())
	b.fillResolveForm("done", "found it")
	away := "store"
	o.away.Store(&away)
	b.focusOn("#resolve button[type=submit]")
	b.pressKeys("\r")
	b.awaitText("#resolve [role=alert]", "It is not known whether the change was made")
	assert.True(t, evalScript[bool](b, `document.activeElement.matches("#resolve button[type=submit]")`), "the focus is at %s",
		evalScript[string](b, `document.activeElement.outerHTML.slice(0, 200)`))
	assert.True(t, strings.Contains(evalScript[string](b, `document.querySelector("#resolve [name=reason]").value`), "found it"), "what was written")
}
