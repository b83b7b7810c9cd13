module github.com/retrysafe/retrysafe/test/browser

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.22.0
	github.com/retrysafe/retrysafe v0.1.0
	github.com/retrysafe/retrysafe/check v0.1.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/theory/jsonpath v0.12.3 // indirect
	golang.org/x/time v0.15.0 // indirect
)
