module github.com/retrysafe/retrysafe/cmd/retrysafe-advise

go 1.26.0

require (
	github.com/retrysafe/retrysafe v0.1.0
	github.com/retrysafe/retrysafe/advise v0.1.0
	github.com/spf13/cobra v1.10.2
)

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.6 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/sqlc-dev/marino v0.3.1 // indirect
	github.com/sqlc-dev/meyer v0.1.2 // indirect
	github.com/sqlc-dev/oliphant v0.2.0 // indirect
	go.yaml.in/yaml/v3 v3.0.4 // indirect
	golang.org/x/text v0.19.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
