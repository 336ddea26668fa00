# The targets call the scripts in script/, which also run in continuous integration.

.DEFAULT_GOAL := help
.PHONY: help setup test race lint bench fuzz fips 32bit nested release reproduce ci release-check

FUZZTIME ?= 20s
COUNT ?= 10

help: ## show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what some tests need besides Go (root or sudo)
	script/setup

test: ## run the examples and all tests of the main module
	script/test

race: ## run the tests with the race detector, in random order
	script/race

lint: ## vet, gofmt, go.mod, staticcheck, golangci-lint, public API
	script/lint

bench: ## run all benchmarks COUNT times (default 10), for benchstat
	script/bench -count $(COUNT)

fuzz: ## run each fuzz target for FUZZTIME (default 20s)
	script/fuzz $(FUZZTIME)

fips: ## run the tests in FIPS 140-3 mode
	script/fips

32bit: ## run the tests on a 32-bit platform
	script/32bit

nested: ## verify, vet and test the nested modules
	script/nested

release: ## build the release files in dist, of the commit VERSION if it is set
	script/release $(VERSION)

reproduce: ## build the release files twice, compare them and check their contents
	script/reproduce

ci: ## run every check that must pass before a change lands
	bash .ci/run

release-check: ## check that this commit can be released as VERSION=vX.Y.Z
	script/release-check $(VERSION)
