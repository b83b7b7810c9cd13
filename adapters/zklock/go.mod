module github.com/retrysafe/retrysafe/adapters/zklock

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/retrysafe/retrysafe v0.1.0
)
