package browsertest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// startDemo starts the demonstration, and returns the address of its page.
func startDemo(t *testing.T) string {
	t.Helper()
	_, line := runCommand(t, "Open http://", "demo", "--listen", "127.0.0.1:0")
	_, rest, _ := strings.Cut(line, "Open ")
	url, _, _ := strings.Cut(rest, " ")
	return url
}

// openDemo opens the page in a new profile of a browser that prefers these languages, and collects
// what the page complains about.
func openDemo(t *testing.T, url, languages string) *tab {
	t.Helper()
	b := openTab(t, "about:blank")
	_, err := chromedp.Call(b.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `window.wrong = [];
			for (const name of ["error", "unhandledrejection", "securitypolicyviolation"]) addEventListener(name, (e) => wrong.push(name + " " + (e.message ?? e.reason ?? e.violatedDirective)));
			for (const name of ["error", "warn"]) console[name] = (...all) => wrong.push(all.join(" "));`,
	})
	assert.NoError(t, err, "watch the page")
	_, err = chromedp.Call(b.ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
		UserAgent: evalScript[string](b, "navigator.userAgent"), AcceptLanguage: languages,
	})
	assert.NoError(t, err, "languages")
	b.runActions("open", chromedp.EmulateViewport(1280, 844), chromedp.Navigate(url))
	b.awaitReady()
	return b
}

// pressEnabled clicks an element that may be out of sight, once it is not disabled.
func (b *tab) pressEnabled(selector string) {
	b.t.Helper()
	b.awaitScript(`document.querySelector("`+selector+`")?.disabled`, "false")
	evalScript[bool](b, `(document.querySelector("`+selector+`").click(), true)`)
}

func (b *tab) setColorScheme(name string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	assert.NoError(b.t, err, "%s", name)
}

func (b *tab) complaints() string { b.t.Helper(); return evalScript[string](b, `wrong.join("\n")`) }

// frameText is the text of a form's page in its frame.
const frameText = `document.querySelector("#form-plain iframe")?.contentDocument?.body?.textContent`

// TestDemoLanguage: the page speaks the browser's language, remembers another that was chosen, and
// follows its address. So do the pages of the forms.
func TestDemoLanguage(t *testing.T) {
	t.Parallel()
	url := startDemo(t)
	for languages, want := range map[string]string{"zh-CN,zh,en": "zh-CN", "fr,zh-TW": "zh-CN", "en-GB,zh": "en", "fr": "en"} {
		b := openDemo(t, url, languages)
		assert.Equal(t, evalScript[string](b, "document.documentElement.lang"), want, "%s", languages)
	}
	b := openDemo(t, url, "zh-CN,en")
	b.awaitText("h1", "只扣一次款")
	b.awaitScript(frameText, "订一把茶壶")
	assert.Equal(t, evalScript[string](b, `document.querySelector("#form-plain iframe").contentDocument.documentElement.lang`), "zh-CN", "the frame")
	assert.Equal(t, evalScript[string](b, `document.getElementById("language").textContent + document.getElementById("language").lang`), "Englishen", "the switch")
	b.runActions("switch by keyboard", chromedp.Focus("#language"), chromedp.KeyEvent("\r"))
	b.awaitText("h1", "Get charged once")
	b.awaitScript("document.documentElement.lang", "en")
	b.awaitScript(frameText, "Order a teapot")
	b.runActions("reload", chromedp.Reload())
	b.awaitText("h1", "Get charged once")
	b.runActions("an address with a language", chromedp.Navigate(url+"/?lang=zh"))
	b.awaitText("h1", "只扣一次款")
	assert.Equal(t, evalScript[string](b, "document.title"), "retrysafe 演示：按两次付款，只扣一次款", "title")
	b.runActions("an address without", chromedp.Navigate(url))
	b.awaitText("h1", "Get charged once")
	b.pressEnabled("#language")
	b.awaitText("h1", "只扣一次款")
	b.awaitReady()
	assert.Equal(t, evalScript[string](b, "location.search"), "", "the address")
	// what the server says
	assert.Equal(t, evalScript[string](b, `fetch("examined/with").then((r) => r.text())`), "这一边没有报告：请先按“检查两家商店”。\n", "a refusal")
	// a form keeps its language over its answer, and over the redirect
	for _, way := range []string{"plain", "redirect"} {
		f := openDemoForm(t, url, way)
		f.click("button")
		f.awaitText("#thanks", "谢谢：订单")
		f.click("a")
		f.awaitText("button", "订一把茶壶")
	}
	assert.Equal(t, b.complaints(), "", "what the page complained about")
}

// openDemoForm opens the page of a form in Chinese, in a browser that prefers English.
func openDemoForm(t *testing.T, url, way string) *tab {
	t.Helper()
	b := openTab(t, url+"/forms/"+way+"?lang=zh")
	b.awaitText("button", "订一把茶壶")
	return b
}

// stages is a story that shows all parts of the page. Each step waits for its end.
var stages = []struct {
	name string
	step func(b *tab)
}{
	{"start", func(b *tab) { b.awaitScript(`document.querySelectorAll("#six li").length`, "6") }},
	{"paid", func(b *tab) {
		b.pressEnabled("#pay")
		b.awaitScript(`document.querySelector("#with .answer")?.dataset.tone`, "good")
		b.pressEnabled("[data-how=failed]")
		b.pressEnabled("[data-times='10']")
		b.awaitScript(`document.querySelectorAll("#with .badge").length`, "8")
		b.awaitScript(`document.getElementById("happened").textContent.length > 20`, "true")
	}},
	{"doubt", func(b *tab) {
		b.pressEnabled("#killed")
		b.awaitScript(`document.getElementById("start").hidden`, "false")
		b.pressEnabled("#start")
		b.awaitScript(`document.getElementById("doubt").hidden`, "false")
	}},
	{"forms", func(b *tab) {
		b.pressEnabled("#twice")
		b.awaitScript(`document.querySelectorAll("#six [data-tone=good]").length + document.querySelectorAll("#six [data-tone=bad]").length`, "6")
		b.awaitScript(`document.querySelectorAll("#six [data-tone=bad]").length`, "2")
		b.pressEnabled("#attack")
		b.awaitScript(`document.querySelectorAll("#copies tbody tr").length`, "6")
	}},
	{"examined", func(b *tab) {
		b.pressEnabled("#examine")
		b.awaitScript(`document.querySelector("#examined-with").dataset.tone`, "good")
	}},
}

// TestDemoIsForEverybody: each part of the page fits, in both languages, on a telephone and in a
// wide window, in light and dark, and axe has nothing to say against it.
func TestDemoIsForEverybody(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"en", "zh"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			url := startDemo(t)
			b := openDemo(t, url, language)
			b.runActions("axe", chromedp.Evaluate[chromedp.Void](axe+";0"))
			look := func(b *tab, name string) {
				for _, width := range []int64{1280, 390} {
					b.runActions("size", chromedp.EmulateViewport(width, 844))
					for _, scheme := range []string{"light", "dark"} {
						b.setColorScheme(scheme)
						b.isForEverybody(fmt.Sprintf("demo-%s-%s-%d-%s", name, language, width, scheme))
					}
				}
			}
			for _, stage := range stages {
				stage.step(b)
				look(b, stage.name)
			}
			assert.Equal(t, b.complaints(), "", "what the page complained about")
			for _, address := range []string{"/forms/all?lang=" + language, "/forms/all/7?lang=" + language} {
				f := openTab(t, url+address)
				f.runActions("axe", chromedp.Evaluate[chromedp.Void](axe+";0"))
				look(f, strings.NewReplacer("/", "", "?", "").Replace(address))
			}
		})
	}
}

// TestDemoByKeyboard: Tab reaches every button of the page in the order in which they stand.
func TestDemoByKeyboard(t *testing.T) {
	t.Parallel()
	b := openDemo(t, startDemo(t), "en")
	b.awaitScript(`[...document.querySelectorAll("#six iframe")].filter((f) => f.contentDocument?.querySelector("button")).length`, "6")
	want := evalScript[[]string](b, `[...document.querySelectorAll("button, input, a[href]")].filter((e) => e.checkVisibility() && !e.disabled && !e.closest("dialog")).map((e) => e.textContent || e.id)`)
	assert.True(t, len(want) >= 12, "controls: %v", want)
	var got []string
	for range 60 {
		b.pressKeys("\t")
		if evalScript[bool](b, "document.activeElement === document.body") {
			break
		}
		if evalScript[bool](b, `document.activeElement.matches("button, input, a[href]")`) {
			got = append(got, evalScript[string](b, "document.activeElement.textContent || document.activeElement.id"))
		}
	}
	assert.Equal(t, got, want, "what Tab reaches")
	b.runActions("pay by keyboard", chromedp.Focus("#pay"), chromedp.KeyEvent("\r"))
	b.awaitText("#happened", "One press, one charge on both sides.")
	b.runActions("examine by keyboard", chromedp.Focus("#examine"), chromedp.KeyEvent("\r"))
	b.awaitText("#examine-happened", "found a fault")
	assert.True(t, evalScript[bool](b, `document.activeElement.id === "examine" || document.activeElement === document.body`), "the focus has not jumped")
}

// TestDemoExplains: after each action the page says what happened and why.
func TestDemoExplains(t *testing.T) {
	t.Parallel()
	b := openDemo(t, startDemo(t), "en")
	b.awaitText("#happened", "Press Pay. The page sends the payment both ways")
	b.awaitText("#tally-without", "Unprotected: no charge yet")
	assert.Equal(t, evalScript[int](b, `document.querySelectorAll(".curl:disabled").length`), 2, "nothing is there to copy yet")
	assert.Equal(t, evalScript[int](b, `[...document.querySelectorAll("[data-copy]")].filter((e) => e.checkVisibility()).length`), 0, "nor a command")
	b.pressEnabled("#pay")
	b.awaitText("#happened", "One press, one charge on both sides.")
	b.awaitScript(`document.querySelectorAll(".curl:disabled").length`, "0")
	b.pressEnabled("#pay")
	b.awaitText("#happened", "2 presses with one key. Without protection the shop ran each of them: 2 charges.")
	b.pressEnabled("#new")
	b.awaitText("#happened", "This is a new payment with a new key.")
	b.pressEnabled("[data-how=lost]")
	b.awaitText("#happened", "its answer was lost on the way back")
	b.pressEnabled("[data-how=lost]")
	b.awaitText("#happened", "This answer was lost too.")
	b.pressEnabled("#pay")
	b.awaitText("#happened", "The answer was lost. The retry got the stored answer: the shop charged once. Without protection the retry was a new payment: 3 charges.")
	b.pressEnabled("#new")
	b.awaitText("#happened", "new payment")
	b.pressEnabled("[data-times='10']")
	b.awaitText("#happened", "10 presses at once with one key. Without protection the shop ran each of them: 10 charges.")
	// a stored error is replayed
	b.pressEnabled("#new")
	b.awaitText("#happened", "new payment")
	b.pressEnabled("[data-how=failed]")
	b.awaitText("#happened", "The shop charged, and then answered 500. The gateway stored that answer")
	b.awaitText("#with .answer .words", "The shop failed. Was it charged?")
	b.pressEnabled("#pay")
	b.awaitText("#happened", "The retry got the stored 500.")
	b.awaitText("#with [data-n='2']", "500")
	b.awaitText("#with [data-n='2']", "the shop had failed. replayed")
	b.awaitText("#with .verdict", "Charged once")
	b.awaitText("#without .verdict", "Charged 2×")
	// without a gateway
	b.pressEnabled("#kill")
	b.awaitText("#happened", "Without it no protected payment reaches the shop.")
	b.pressEnabled("#pay")
	b.awaitText("#happened", "so the protected press did nothing. Without protection the shop ran it: 3 charges.")
	b.pressEnabled("#start")
	b.awaitScript(`document.getElementById("kill").hidden`, "false")
	b.pressEnabled("#pay")
	b.awaitText("#with [data-n='4'] .badge", "replayed")
	b.pressEnabled("#new")
	b.awaitText("#happened", "new payment")
	b.pressEnabled("#killed")
	b.awaitText("#happened", "the gateway was killed before it had the answer")
	b.pressEnabled("#start")
	b.awaitText("#happened", "It does not send the payment again. An operator")
	// the forms
	b.awaitText("#forms-happened", "Nothing was ordered yet.")
	b.pressEnabled("#twice")
	b.awaitText("#forms-happened", "2 of 6 forms made more orders than were meant")
	b.pressEnabled("#attack")
	b.awaitText("#forms-happened", "The copies made 15 orders more.")
	assert.Equal(t, b.complaints(), "", "what the page complained about")
}

// TestDemoInOrder: what was pressed first happens first, also when its request is slow.
func TestDemoInOrder(t *testing.T) {
	t.Parallel()
	b := openDemo(t, startDemo(t), "en")
	evalScript[bool](b, `(() => {
		const plain = window.fetch;
		window.sent = [];
		window.fetch = async (path, options) => {
			if (path === "press") await new Promise((go) => setTimeout(go, 500));
			window.sent.push(path);
			return plain(path, options);
		};
		document.getElementById("pay").click();
		document.getElementById("new").click();
		return true;
	})()`)
	b.awaitScript(`sent.length`, "2")
	assert.Equal(t, evalScript[string](b, `sent.join(" ")`), "press new", "the requests")
	b.awaitText("#happened", "This is a new payment with a new key.")
	assert.Equal(t, evalScript[int](b, `document.querySelectorAll("#with .answer").length`), 0, "presses of the new payment")
}

// TestDemoExamines: the page examines a shop without protection and one after the gateway, and
// leads to the pages of the checks and to the reports. It changes nothing else on the page.
func TestDemoExamines(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"en", "zh"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			b := openDemo(t, startDemo(t), language)
			says := func(english, chinese string) string {
				if language == "zh" {
					return chinese
				}
				return english
			}
			post := `fetch("examine", { method: "POST" }).then(async (r) => r.status + " " + await r.text())`
			b.awaitText("#examine-happened", says("Not examined yet.", "还没有检查。"))
			assert.Equal(t, evalScript[int](b, `document.querySelectorAll(".report:not([hidden])").length`), 0, "reports")
			// the second one comes while the first one runs: it has just begun
			both := evalScript[string](b, `Promise.all([1, 2].map(() => `+post+`)).then((all) => all.sort().join("|"))`)
			assert.True(t, strings.HasPrefix(both, "202 |409 "), "one at a time: %s", both)
			b.awaitScript(`document.getElementById("examine").dataset.ended`, "1")
			assert.Equal(t, evalScript[string](b, `document.querySelector("#examined-without").dataset.tone + document.querySelector("#examined-with").dataset.tone`), "badgood", "tones")
			b.awaitText("#examined-with .verdict", says("No check found a fault.", "没有检查项发现问题。"))
			b.awaitText("#examined-without .verdict", says("broken", "有问题"))
			b.awaitText("#examined-without .checks", says("✗ broken (critical) a duplicate does not act again", "✗ 有问题（危急） 重复请求不会再次生效"))
			b.awaitText("#examine-happened", says("Behind the gateway 0 did.", "网关后面是 0 项。"))
			assert.Equal(t, evalScript[int](b, `document.querySelectorAll(".checks li").length`), 24, "checks")
			assert.Equal(t, evalScript[string](b, `document.querySelector(".checks a").href`),
				"https://github.com/retrysafe/retrysafe/blob/main/docs/checks"+says("", ".zh-CN")+".md#sequential-duplicate", "the page of a check")
			assert.Equal(t, evalScript[string](b, `document.getElementById("examine").disabled + document.getElementById("examine").textContent`), "false"+says("Examine both again", "重新检查"), "the button")
			for _, side := range []string{"without", "with"} {
				r := b.openSecondTab(evalScript[string](b, `document.querySelector("#examined-`+side+` .report a").href`))
				r.awaitText("h1", "safe to retry?")
				assert.Equal(t, evalScript[int](r, `document.querySelectorAll("tbody tr").length`) > 12, true, "checks of the report")
				assert.Equal(t, evalScript[string](r, `getComputedStyle(document.querySelector(".badge")).display`), "inline-block", "the report has its style")
			}
			assert.Equal(t, evalScript[string](b, `document.querySelectorAll(".receipt, .answer").length + " " + document.querySelectorAll("#six .count[data-tone=none]").length`), "0 6", "payments and orders of the other scenes")
			b.pressEnabled("#examine")
			b.awaitScript(`document.getElementById("examine").dataset.ended`, "2")
			assert.Equal(t, evalScript[string](b, `document.querySelector("#examined-with").dataset.tone`), "good", "the second time")
			assert.Equal(t, b.complaints(), "", "what the page complained about")
		})
	}
}
