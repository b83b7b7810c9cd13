module github.com/retrysafe/retrysafe/gateway

go 1.26

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/retrysafe/retrysafe v0.0.0
)

replace github.com/retrysafe/retrysafe => ../
