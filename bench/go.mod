module github.com/retrysafe/retrysafe/bench

go 1.26

require github.com/retrysafe/retrysafe v0.0.0

replace (
	github.com/retrysafe/retrysafe => ../
	github.com/retrysafe/retrysafe/gateway => ../gateway
)
