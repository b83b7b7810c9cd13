# Every target works from a fresh clone with Go and make; `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help run test race mutants stress rolling fresh lint fuzz bench bench-all bench-gateway soak tidy release-rehearsal

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run the demonstration
	go run ./cmd/retrysafe demo

test: ## run every check that a change must pass; SERVERS=none leaves out what needs servers
	scripts/test.sh

race: ## run all tests with the race detector, those that start servers too
	scripts/race.sh

mutants: ## put known mistakes into a copy of the tree, and see that a test finds each (ten minutes)
	go run ./scripts/mutants

stress: ## run the tests again and again beside busy loops (hours)
	scripts/stress.sh

rolling: ## run gateways of the release before and of this tree side by side on each store
	scripts/rolling.sh

fresh: ## run the tests in a clean clone with empty caches, and once more
	scripts/fresh.sh

lint: ## run golangci-lint and gofumpt over every module
	scripts/lint.sh

fuzz: ## search with every fuzz target (half an hour)
	scripts/fuzz.sh

bench: ## run the benchmarks
	cd bench && go test -run '^$$' -bench . -benchmem ./...

bench-all: ## run every comparison of docs/benchmarks.md and write its tables (half an hour)
	cd bench && go run ./benchall -write

bench-gateway: ## compare the gateway on Redis with nginx, Lua and Redis
	cd bench && go run ./gatewaybench

soak: ## run the long tests (an hour or more; RETRYSAFE_SOAK=short: minutes)
	scripts/soak.sh

tidy: ## tidy every module
	scripts/tidy.sh

release-rehearsal: ## install every module from a proxy of this tree, as a user does
	go run ./scripts/release rehearse
