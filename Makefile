.DEFAULT_GOAL := help
GO ?= go
TESTFLAGS ?=
SERVICE_TESTS = $(shell grep -rlE '^//go:build .*services' --include='*_test.go' $(SOURCES))
SOURCES = agents cmd deploy graph memory migrations orchestrator $(wildcard *.go)

.PHONY: help check gen gen-check test test-services test-qdrant test-clients test-peers fuzz lint bench bench-obedient demo

help: ## say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

check: gen-check lint test ## everything that needs no service: what CI runs first

gen: ## generate the GraphQL code and the state diagram
	$(GO) tool gqlgen generate --config graph/gqlgen.yml
	$(GO) test ./orchestrator/run -run TestDiagram -update

gen-check: ## fail when generated files are stale
	$(GO) tool gqlgen generate --config graph/gqlgen.yml
	git diff --exit-code -- graph/generated

test: ## the tests that need Go alone
	$(GO) test $(TESTFLAGS) ./...

test-services: ## the tests that need real PostgreSQL and NATS servers, and those alone
	$(GO) test -tags services -count=1 $(TESTFLAGS) -run "^($$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(t .*/\1/p' $(SERVICE_TESTS) | paste -sd '|' -))\$$" \
		$(addprefix ./,$(sort $(dir $(SERVICE_TESTS))))

test-qdrant: export QDRANT_API_KEY ?= $(shell od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
test-qdrant: ## the index against a real Qdrant server: the one at QDRANT_URL, or one of deploy/compose.yaml, which needs Docker and curl
ifdef QDRANT_URL
	$(GO) test -count=1 -v $(TESTFLAGS) -run 'TestSuiteOnARealServer' ./memory/index/qdrant
else
	docker compose -p gantry-test-qdrant -f deploy/compose.yaml up -d --force-recreate qdrant
	trap 'docker compose -p gantry-test-qdrant -f deploy/compose.yaml down -v' EXIT; \
	curl -sf --retry 60 --retry-delay 1 --retry-all-errors -o /dev/null http://127.0.0.1:6333/readyz && \
	QDRANT_URL=http://127.0.0.1:6334 $(GO) test -count=1 -v $(TESTFLAGS) -run 'TestSuiteOnARealServer' ./memory/index/qdrant
endif

test-clients: docs/client/node_modules/.package-lock.json ## the GraphQL clients of front ends against the real binary; needs Node
	$(GO) build -o docs/client/build/gantry ./cmd/gantry
	cd docs/client && npm run --silent build && npm test --silent

docs/client/node_modules/.package-lock.json: docs/client/package-lock.json
	cd docs/client && npm ci --no-audit --no-fund --loglevel=error
	touch $@

test-peers: docs/peers/node_modules/.package-lock.json ## other people's programs that speak MCP and A2A against the real binary; needs Node
	$(GO) build -o docs/peers/build/gantry ./cmd/gantry
	$(GO) build -o docs/peers/build/conform ./graph/mcp/conform
	cd docs/peers && GANTRY_BINARY=$(CURDIR)/docs/peers/build/gantry npm test --silent
	$(GO) test -tags npm -count=1 -v $(TESTFLAGS) -run '^TestNpm' ./agents/tool/mcp

docs/peers/node_modules/.package-lock.json: docs/peers/package-lock.json
	cd docs/peers && npm ci --no-audit --no-fund --loglevel=error
	touch $@

fuzz: ## every fuzz target for FUZZTIME each, 3s by default
	.ci/fuzz

lint: ## formatting, vet and the linters of .golangci.yml
	@test -z "$$(gofmt -l $(SOURCES))" || { gofmt -l $(SOURCES); exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=.tools/go.mod golangci-lint run ./...

bench-obedient: ## attacks by a model that obeys anybody, and the same without policy, where they have to succeed
	$(GO) run ./cmd/gantry bench obedient
	$(GO) run -tags insecure_nopolicy ./cmd/gantry bench obedient

demo: ## run the sample reconciliation from start to end
	$(GO) run ./cmd/gantry demo

bench: ## measure whole runs beside the bare limits of this machine; docs/performance.md says what the figures mean
	$(GO) run ./cmd/gantry bench run --paused 10000
