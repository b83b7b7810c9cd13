module github.com/retrysafe/retrysafe/adapters/rueidisclient

go 1.26

require (
	github.com/redis/rueidis v1.0.79
	github.com/retrysafe/retrysafe v0.1.0
)

require golang.org/x/sys v0.47.0 // indirect
