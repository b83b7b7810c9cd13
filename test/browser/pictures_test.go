package browsertest_test

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestPicturesOfDemo takes the pictures of the page that the documentation has, and compares their
// sizes with the files; with UPDATE=1 it writes the files.
func TestPicturesOfDemo(t *testing.T) {
	t.Parallel()
	for language, names := range map[string][2]string{"en": {"demo.png", "demo-forms.png"}, "zh": {"demo.zh-CN.png", "demo-forms.zh-CN.png"}} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			b := openDemo(t, startDemo(t), language)
			b.setColorScheme("light")
			b.runActions("size", chromedp.EmulateViewport(1280, 880))
			b.pressEnabled("#pay")
			b.awaitScript(`document.querySelector("#with .answer")?.dataset.tone`, "good")
			for range 4 {
				b.pressEnabled("#pay")
			}
			b.awaitScript(`document.querySelectorAll("#with .badge").length`, "4")
			b.awaitScript(`document.querySelectorAll("#without .answer[data-tone=good]").length`, "5")
			b.awaitScript(`document.querySelectorAll("#without .receipt").length`, "5")
			b.takePicture(names[0], cdppage.Viewport{Width: 1280, Height: 880, Scale: 1})

			b.pressEnabled("#twice")
			b.awaitScript(`document.querySelectorAll("#six [data-tone=bad]").length`, "2")
			b.awaitScript(`[...document.querySelectorAll("#six iframe")].filter((f) => f.contentDocument?.getElementById("thanks")).length`, "6")
			b.pressEnabled("#attack")
			b.awaitScript(`[...document.querySelectorAll("#copies td:last-child")].map((e) => e.textContent).join()`, "7,6,7,1,1,1")
			b.awaitScript(`[...document.querySelectorAll("#six iframe")].filter((f) => f.contentDocument?.getElementById("thanks")).length`, "6")
			at := evalScript[[]float64](b, `(() => { const r = document.querySelector(".forms").getBoundingClientRect(); return [scrollY + r.y - 14, r.height + 28] })()`)
			b.takePicture(names[1], cdppage.Viewport{Y: at[0], Width: 1280, Height: at[1], Scale: 1})
		})
	}
}

// takePicture takes a picture of a part of the page for docs.
func (b *tab) takePicture(name string, part cdppage.Viewport) {
	b.t.Helper()
	got, err := chromedp.Call(b.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{Clip: &part, CaptureBeyondViewport: new(true)})
	assert.NoError(b.t, err, "picture %s", name)
	path := filepath.Join("..", "..", "docs", name)
	if os.Getenv("UPDATE") != "" {
		assert.NoError(b.t, os.WriteFile(path, got.Data, 0o644), "write %s", name)
	}
	have, err := os.ReadFile(path)
	assert.NoError(b.t, err, "docs/%s; UPDATE=1 writes it", name)
	old, err := png.DecodeConfig(bytes.NewReader(have))
	assert.NoError(b.t, err, "docs/%s", name)
	assert.Equal(b.t, old.Width, int(part.Width), "the width of docs/%s; UPDATE=1 writes it", name)
}
