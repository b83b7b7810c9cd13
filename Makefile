# Every target works from a fresh clone with Go and make; `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help run test verify race mutants stress rolling fresh lint fuzz bench bench-all bench-gateway soak check-soak check-others tidy release-rehearsal site site-serve site-test

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run the demonstration
	go run ./cmd/retrysafe/demo

test: ## run every test once, on real servers; SERVERS=none leaves out what needs them
	scripts/test.sh

verify: ## run what a build machine checks besides: vet, the race detector, a release, pages, lint
	scripts/verify.sh

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
	cd test/bench && go test -run '^$$' -bench . -benchmem ./...

bench-all: ## run every comparison of docs/benchmarks.md and write its tables (an hour)
	cd test/bench && go run ./benchall -write

bench-gateway: ## compare the gateway on Redis with nginx, Lua and Redis
	cd test/bench && go run ./gatewaybench

soak: ## run the long tests (an hour or more; RETRYSAFE_SOAK=short: minutes)
	scripts/soak.sh

check-soak: ## examine the right servers of `check` again and again, also beside busy loops
	cd check && RETRYSAFE_SOAK=$${RETRYSAFE_SOAK:-long} go test -v -run '^TestSoak' -parallel 6 -count=1 -timeout 120m .

check-others: ## examine the middleware of other projects and write its section of docs/check.md (needs node and npm)
	cd test/bench && go run ./checkothers -write

tidy: ## tidy every module
	scripts/tidy.sh

release-rehearsal: ## install every module from a proxy of this tree, as a user does
	go run ./scripts/release rehearse

site: ## build the documentation site in English and Chinese (needs node and npm)
	cd docs/site && npm ci && npm run build
	@echo "the site is in docs/site/.vitepress/dist; make site-serve serves it"

site-serve: site ## build the documentation site and serve it on http://127.0.0.1:4173
	cd docs/site && npm run serve

site-test: site ## build the documentation site and test it in a browser (needs Chromium)
	cd docs/site && npm test
