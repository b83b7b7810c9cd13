module github.com/retrysafe/retrysafe/adapters/zklock

go 1.26.0

replace github.com/retrysafe/retrysafe => ../../

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/retrysafe/retrysafe v0.0.0
)
