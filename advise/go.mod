module github.com/retrysafe/retrysafe/advise

go 1.26

require (
	github.com/retrysafe/retrysafe v0.1.0
	github.com/sqlc-dev/marino v0.3.1
	github.com/sqlc-dev/meyer v0.1.2
	github.com/wasilibs/go-pgquery v0.0.0-20260728010200-155ebad2880e
)

require (
	github.com/pganalyze/pg_query_go/v6 v6.2.2 // indirect
	github.com/tetratelabs/wazero v1.12.0 // indirect
	github.com/wasilibs/wazero-helpers v0.0.0-20250123031827-cd30c44769bb // indirect
	golang.org/x/sys v0.44.0 // indirect
	golang.org/x/text v0.19.0 // indirect
)
