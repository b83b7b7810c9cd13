module github.com/retrysafe/retrysafe/advise

go 1.26

require (
	github.com/retrysafe/retrysafe v0.1.0
	github.com/sqlc-dev/marino v0.3.1
	github.com/sqlc-dev/meyer v0.1.2
	github.com/sqlc-dev/oliphant v0.2.0
	google.golang.org/protobuf v1.36.12
)

require golang.org/x/text v0.19.0 // indirect
