module github.com/retrysafe/retrysafe/httpidem/httpsig

go 1.26

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/retrysafe/retrysafe v0.1.0
)
