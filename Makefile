# Barnabas. "make help" lists the targets. demo, build and test need nothing but Go and make.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools, pinned; they live in ./bin and never in go.mod. golangci-lint brings gofumpt v0.12.0 and goimports with it,
# so that fmt and lint cannot disagree.
GOLANGCI_LINT_VERSION := v2.15.0
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da

BIN := $(CURDIR)/bin
GO ?= go
GOLANGCI_LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
BENCHSTAT := $(BIN)/benchstat-$(BENCHSTAT_VERSION)

# What a run can be told: make test PKG=./retry/... TESTFLAGS='-run Decide -v'
PKG ?= ./...
TESTFLAGS ?=
FUZZTIME ?= 10s
SEEDS ?= 200
# The benchmark's flags: -rounds 5, -scenario latency, -long, -events 0.01, -json FILE, -profile DIR, -update docs/performance.md.
BENCH_FLAGS ?=
# Which micro-benchmarks, how often each, and what they are compared with.
BENCH ?= .
BENCHCOUNT ?= 6
BENCHBASE ?=
# The scenarios that run on a real Kafka.
KAFKA_PKG ?= ./internal/testkit/realkafka/... ./test/e2e/...
# How often make chaos kills a worker, what draws load and faults (0: chance), and more flags: -json, -keep, -session 10s.
CHAOS_KILLS ?= 100
CHAOS_SEED ?= 0
CHAOS_FLAGS ?=
# What waits in make memory, and more flags: -json, -keep, -endpoints 100000, -set limits.memory=64MiB.
MEMORY_EVENTS ?= 2000000
MEMORY_SIZE ?= 10240
MEMORY_FLAGS ?=

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^## / { printf "\n%s\n", substr($$0, 4) } /^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## Build and try

.PHONY: build
build: ## Build ./bin/barnabas
	$(GO) build -o $(BIN)/barnabas ./cmd/barnabas

.PHONY: demo
demo: build ## Embedded broker, three receivers, 1,000 events, a crash and a replay; exit code says whether all held
	$(BIN)/barnabas demo

## Test

.PHONY: test
test: ## Unit tests, simulation and end-to-end on the embedded broker
	$(GO) test -shuffle=on $(TESTFLAGS) $(PKG)

.PHONY: race
race: ## The tests under the race detector (slower; needs a C compiler)
	$(GO) test -race -timeout 30m -shuffle=on $(TESTFLAGS) $(PKG)

.PHONY: sim
sim: ## The simulation alone: SEEDS=200 random schedules, and the mistakes that its oracle must find
	SEEDS=$(SEEDS) BARNABAS_SIM_MUTATIONS=1 $(GO) test -count=1 -timeout 60m $(TESTFLAGS) ./test/sim/...

.PHONY: test-kafka
test-kafka: with-kafka ## End-to-end on a real Apache Kafka: BARNABAS_TEST_KAFKA, else a container, else Maven's jars (and kcat, Node, Python 3)
	test/interop/install
	$(BIN)/with-kafka -- $(GO) test -count=1 -tags kafka $(TESTFLAGS) $(KAFKA_PKG)

.PHONY: test-containers
test-containers: with-kafka ## The same through testcontainers; as root on Debian it installs and starts Docker itself
	test/interop/install
	deploy/kafka-image/with-docker bash -euo pipefail -c 'deploy/kafka-image/build; \
	  BARNABAS_TEST_KAFKA_WAY=container $(BIN)/with-kafka -- $(GO) test -count=1 -tags kafka $(TESTFLAGS) $(KAFKA_PKG)'

.PHONY: chaos
chaos: build ## Kills and freezes workers and the broker under load on Apache Kafka, and counts (CHAOS_KILLS=100: a quarter of an hour)
	$(GO) build -o $(BIN)/chaos ./test/chaos/cmd/chaos
	$(BIN)/chaos -binary $(BIN)/barnabas -kills $(CHAOS_KILLS) -seed $(CHAOS_SEED) $(CHAOS_FLAGS)

.PHONY: memory
memory: build ## The memory of one process with MEMORY_EVENTS=2000000 of MEMORY_SIZE=10240 bytes waiting on Apache Kafka, every endpoint dead
	$(GO) build -o $(BIN)/memory ./test/memory/cmd/memory
	$(BIN)/memory -binary $(BIN)/barnabas -events $(MEMORY_EVENTS) -size $(MEMORY_SIZE) $(MEMORY_FLAGS)

.PHONY: with-kafka
with-kafka:
	$(GO) build -o $(BIN)/with-kafka ./internal/testkit/cmd/with-kafka

.PHONY: interop
interop: ## Signatures checked by other people's libraries (needs Node with npm, and Python 3)
	test/interop/install
	$(GO) test -count=1 -tags interop $(TESTFLAGS) ./test/interop/...

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s each)
	@for pkg in $$($(GO) list $(PKG)); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; \
	done

.PHONY: bench
bench: build ## The whole on Apache Kafka beside a bare loop of signed POSTs, and its targets (BENCH_FLAGS; about an hour)
	$(GO) build -o $(BIN)/bench ./test/bench/cmd/bench
	$(BIN)/bench -binary $(BIN)/barnabas $(BENCH_FLAGS)

.PHONY: bench-micro
bench-micro: $(BENCHSTAT) ## Micro-benchmarks to bin/bench.txt, summed up; compared with another such file by BENCHBASE=file
	@mkdir -p $(BIN)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) $(PKG) | tee $(BIN)/bench.txt
	$(BENCHSTAT) $(BENCHBASE) $(BIN)/bench.txt

## Check and write

.PHONY: lint
lint: $(GOLANGCI_LINT) ## golangci-lint with .golangci.yml
	$(GOLANGCI_LINT) run $(PKG)

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format (gofumpt, goimports)
	$(GOLANGCI_LINT) fmt

.PHONY: generate
generate: ## go generate
	$(GO) generate ./...

.PHONY: golden
golden: ## Rewrite the golden files of testdata/ (tests named Golden)
	BARNABAS_TEST_GOLDEN_WRITE=1 $(GO) test -count=1 -run Golden ./...

.PHONY: docs
docs: ## Rewrite the pages of docs/ that mirror code (tests named Docs)
	BARNABAS_TEST_GOLDEN_WRITE=1 $(GO) test -count=1 -run Docs ./...

.PHONY: tidy
tidy: ## go mod tidy
	$(GO) mod tidy

.PHONY: verify
verify: ## tidy, generate, golden and docs change nothing
	@state() { git status --porcelain; git diff HEAD; git ls-files -z --others --exclude-standard | xargs -0 -r sha256sum; }; \
	before=$$(state); \
	$(MAKE) --no-print-directory tidy generate golden docs; \
	if [ "$$before" != "$$(state)" ]; then git status --short; echo 'verify: the above is not as the code makes it; commit it'; exit 1; fi

.PHONY: clean
clean: ## Remove what was built, tools included
	rm -rf $(BIN)
	$(GO) clean -testcache

# A tool's version is in its file's name: a new pin installs anew, an old one is never taken for it.
define install-tool
	@mkdir -p $(BIN)
	GOBIN=$(BIN)/install GOFLAGS=-mod=mod $(GO) install $(1)
	mv $(BIN)/install/$(2) $@
	rm -rf $(BIN)/install
endef

$(GOLANGCI_LINT):
	$(call install-tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION),golangci-lint)

$(BENCHSTAT):
	$(call install-tool,golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION),benchstat)
