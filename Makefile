# `make help` lists what there is. Everything runs from a bare clone on Debian with Python 3.11 to 3.14, Go 1.26 and root.
# KUBE_CONTEXT=name uses that existing cluster instead of our own.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
CLUSTER := $(PYTHON) -m tests.support.cluster
CACHE := $(if $(PENSTOCK_CACHE),$(PENSTOCK_CACHE),$(HOME)/.cache/penstock)
BIN := .venv/bin
# torch in the tests answers small models: one thread a process leaves the other core to the rest
PYTEST := OMP_NUM_THREADS=1 PATH="$(CACHE)/bin:$$PATH" $(BIN)/pytest
SHORT := -m "not long"
# the tests of the cluster keep to one process and mostly wait: one more than there are cores
WORKERS := $(shell expr $$(nproc) + 1)
PARALLEL := --numprocesses $(WORKERS) --max-worker-restart 0 --no-loadscope-reorder
# end-to-end tests mostly wait for pods, which share the cores
SIDE_BY_SIDE := --numprocesses 3 --max-worker-restart 0
WITHOUT_CLUSTER := tests/integration/runtime tests/integration/signals tests/integration/batches
# a failing part does not keep the others from running; an interruption ends them all
BEGIN := trap 'exit 130' INT; status=0
RUNS ?= 10
BUSY ?= 0

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Make the virtual environment .venv
	@$(CLUSTER) setup

.PHONY: cluster
cluster: ## Start a real Kubernetes on this machine (a running one is kept)
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## Stop it and remove all but the caches
	@$(CLUSTER) down

.PHONY: clean-cache
clean-cache: ## Remove what was built and downloaded for the cluster: some 8 GB, 19 with torch for CUDA
	@$(CLUSTER) clean-cache

.PHONY: tools
tools: ## Build helm, kubeconform and helm-docs; fetch promtool and redis-server
	@$(CLUSTER) tools

.PHONY: images
images: cluster ## Build the images that changed and bring them to the cluster
	@$(CLUSTER) images
	@$(CLUSTER) groups

TAG ?= 0.1.0
# TORCH=cpu: a runtime of 1.5 GB, not 5, which uses no GPU
TORCH ?=
TORCH_ARGUMENT := $(if $(filter cpu,$(TORCH)),--build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu )
.PHONY: docker-images
# the mounts of the Dockerfiles need BuildKit, which is not the default before Docker 23
docker-images: export DOCKER_BUILDKIT = 1
docker-images: ## Build the images with Docker, without a cluster: make docker-images TAG=0.1.0 TORCH=cpu
	docker build -f operator/Dockerfile -t penstock-operator:$(TAG) .
	docker build $(TORCH_ARGUMENT)-f runtime/Dockerfile -t penstock-runtime:$(TAG) .
	docker build -f operator/gateway.Dockerfile -t penstock-gateway:$(TAG) .
	docker build -f operator/batches.Dockerfile -t penstock-batches:$(TAG) .

# ON=kind runs it in Docker
ON ?=
.PHONY: demo
demo: ## Watch it all at work, from an empty cluster to a drained pool and a chat
	@PENSTOCK_DEMO_ON=$(ON) $(PYTHON) -m tests.demo.start

.PHONY: test
test: lint cluster images ## Lint, then unit, integration and end-to-end tests
	$(BEGIN); \
	$(PYTEST) $(SHORT) $(PARALLEL) tests/unit tests/integration || status=$$?; \
	$(PYTEST) -m "not long and not alone" $(SIDE_BY_SIDE) tests/e2e || status=$$?; \
	$(PYTEST) -m "not long and alone" tests/e2e || status=$$?; \
	exit $$status

.PHONY: test-unit
test-unit: setup tools ## The tests that need no cluster
	$(PYTEST) $(SHORT) --numprocesses auto --max-worker-restart 0 tests/unit

.PHONY: test-repeat
test-repeat: setup tools ## The same RUNS times in random orders next to BUSY busy processes: RUNS=10 BUSY=6
	@for _ in $$(seq $(BUSY)); do (while kill -0 $$$$; do :; done) 2>/dev/null & done; \
	$(BEGIN); \
	for _ in $$(seq $(RUNS)); do \
	  $(PYTEST) $(SHORT) $(PARALLEL) tests/unit $(WITHOUT_CLUSTER) || status=$$((status + 1)); \
	done; \
	echo "$$status of $(RUNS) runs failed next to $(BUSY) busy processes"; exit $$status

.PHONY: test-long
test-long: setup cluster tools images ## The tests that take minutes each
	$(BEGIN); \
	$(PYTEST) -m long tests/unit tests/integration || status=$$?; \
	$(PYTEST) -m long tests/e2e || status=$$?; \
	exit $$status

.PHONY: lint
lint: setup tools ## ruff, mypy, import contracts, vocabulary, the charts, stale CRDs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --cache-dir $(CACHE)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.audit.vocabulary
	$(BIN)/python -m tests.audit.class_names
	$(BIN)/penstock-crdgen --check
	$(CACHE)/bin/helm lint --quiet charts/*/
	@$(CHART_README) --dry-run | diff charts/penstock/README.md - || { echo "charts/penstock/README.md is stale: make chart-readme"; exit 1; }

# an extra's environment of its own, such as $(CACHE)/audit
EXTRAS := $(CACHE)/audit/complete $(CACHE)/audit-charts/complete $(CACHE)/docs/complete
$(EXTRAS): $(CACHE)/%/complete: pyproject.toml
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/pip install --quiet --disable-pip-version-check $$($(PYTHON) -c "import tomllib; \
	  print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$*'])")
	@touch $@
AUDIT := PENSTOCK_AUDIT_BIN=$(CACHE)/audit/bin PENSTOCK_CHECKOV_BIN=$(CACHE)/audit-charts/bin $(BIN)/python -m tests.audit

.PHONY: sbom
sbom: setup $(CACHE)/audit/complete ## Write the software bills of materials of both images, into build/audit
	@$(AUDIT) sbom

.PHONY: audit
audit: setup cluster tools $(CACHE)/audit/complete $(CACHE)/audit-charts/complete ## The same, known vulnerabilities, and what four tools say of the rendered chart
	@$(AUDIT) audit

.PHONY: pages
pages: setup ## Generate the tables of docs/reference and its OpenAPI file from the code
	@$(BIN)/python -m tests.support.pages

.PHONY: docs
docs: setup $(CACHE)/docs/complete ## Build docs/ into build/site; fails on a dead link, an unknown field, a stale table, and on what Vale finds
	@$(PYTEST) -q --numprocesses 2 tests/unit/docs
	@$(BIN)/python -m tests.audit.prose
	@$(CACHE)/docs/bin/zensical build --clean --strict 2>&1 | sed 's/\x1b\[[0-9;]*m//g'

.PHONY: format
format: setup ## Format and sort what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# SECONDS of one core's time, at most; it stops when it knows its text by heart
DEMO_SECONDS ?= 90
.PHONY: demo-model
demo-model: setup ## Train the tiny model of the project's own text, into build/demo-model
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.support.demo_model build/demo-model --seconds $(DEMO_SECONDS)

CHART_README = $(CACHE)/bin/helm-docs --chart-to-generate charts/penstock --sort-values-order file --log-level warning
.PHONY: chart-readme
chart-readme: tools ## Generate charts/penstock/README.md from the comments in values.yaml
	$(CHART_README)

# the images are yours: OPERATOR_IMAGE=... and RUNTIME_IMAGE=... name them without tag; more by OPTIONS="--set scope=..."
OPERATOR_IMAGE ?= registry.example/penstock-operator
RUNTIME_IMAGE ?= registry.example/penstock-runtime
NAMESPACE ?= penstock-system
INSTALL_YAML ?= build/install.yaml
.PHONY: install-yaml
install-yaml: tools ## Render the chart for kubectl apply: make install-yaml OPERATOR_IMAGE=... RUNTIME_IMAGE=... TAG=...
	@mkdir -p $(dir $(INSTALL_YAML))
	@printf '%s\n' 'apiVersion: v1' 'kind: Namespace' 'metadata:' '  name: $(NAMESPACE)' '  labels:' \
	  '    pod-security.kubernetes.io/enforce: restricted' > $(INSTALL_YAML)
	@$(CACHE)/bin/helm template penstock charts/penstock --namespace $(NAMESPACE) --no-hooks --kube-version 1.31 \
	  --set image.repository=$(OPERATOR_IMAGE),image.tag=$(TAG) \
	  --set runtimeImage.repository=$(RUNTIME_IMAGE),runtimeImage.tag=$(TAG) $(OPTIONS) >> $(INSTALL_YAML)
	@echo "kubectl apply --server-side --filename $(INSTALL_YAML)"

.PHONY: crds
crds: setup ## Generate crds/ and the charts' copies from the types
	$(BIN)/penstock-crdgen

# the public traces of the bench, or where they are already
TRACES ?= $(firstword $(wildcard ../shared/traces) build/traces)
.PHONY: traces
traces: setup ## Fetch the public traces of the bench of laws, and check and convert them: some 60 MB
	@$(BIN)/python -m tests.bench.traces "$(TRACES)"

# any file of arrival times; CURVE is t(b) = a + c*b in milliseconds; more by OPTIONS="--cold-median 180 --routing power-of-two"
LAW ?= CapacityAtObjective keda-queue-5
CURVE ?= 100,10
SEED ?= 1
.PHONY: simulate
simulate: setup ## Run laws over a trace, or a synthetic one: make simulate TRACE=file LAW="CapacityAtObjective hpa-70" CURVE=100,10
	@test -n "$(TRACE)" || $(BIN)/python -m tests.bench.traces.synthetic build/traces/synthetic
	@$(BIN)/python -m penstock_simulator simulate --trace "$(or $(TRACE),build/traces/synthetic/waves.txt)" --law $(LAW) --curve "$(CURVE)" --seed $(SEED) $(OPTIONS)

.PHONY: bench-fit
bench-fit: setup ## Fit the simulator's service model from a run of the real runtime, and print the two side by side
	@$(BIN)/python -m tests.bench.fit $(OPTIONS)

.PHONY: bench-control
bench-control: setup ## Print how good the laws are on four traces: make bench-control TRACES=folder OPTIONS=--quick
	@$(BIN)/python -m tests.bench.control --traces "$(TRACES)" $(OPTIONS)

.PHONY: bench-variants
bench-variants: setup ## Cost of a pool with variants against the cheapest fixed mix, three price lists: make bench-variants TRACES=folder
	@$(BIN)/python -m tests.bench.variants --traces "$(TRACES)" $(OPTIONS)

.PHONY: bench-valleys
bench-valleys: setup ## GPU-hours of batch work in the valleys of a trace, and as ordinary requests: make bench-valleys TRACES=folder
	@$(BIN)/python -m tests.bench.batches.valleys --traces "$(TRACES)" $(OPTIONS)

.PHONY: bench-batches
bench-batches: setup tools ## Batch work next to a live trace, and through SIGKILLs, after one make cluster: OPTIONS="--lines 50000 --kills 50" takes an hour
	@OMP_NUM_THREADS=1 unshare --net $(BIN)/python -m tests.bench.batches.kills --traces "$(TRACES)" $(OPTIONS)

.PHONY: bench-decide
bench-decide: setup ## Time the operator's decide step with 10, 1,000 and 5,000 pools, and count its questions to Prometheus
	@$(BIN)/python -m tests.bench.decide $(OPTIONS)

.PHONY: bench-edits
bench-edits: setup cluster tools images ## Time policy edits until 20 pods acknowledge them, on the test cluster
	@$(BIN)/python -m tests.bench.edits $(OPTIONS)

.PHONY: fault-table
fault-table: setup cluster tools images ## What a pool under load loses, moves and needs for each fault: OPTIONS="--only Prometheus"
	@$(BIN)/python -m tests.bench.faults $(OPTIONS)

.PHONY: bench-scale
bench-scale: setup cluster ## Start-up, ticks, memory and writes of the operator with 10, 1,000 and 5,000 pools, in a control plane of its own
	@unshare --net $(BIN)/python -m tests.bench.scale $(OPTIONS)

.PHONY: bench-http
bench-http: setup ## Compare the server with its peers over HTTP, ratios of medians: OPTIONS=--quick takes 5 minutes
	@$(BIN)/python -m tests.bench.http $(OPTIONS)

.PHONY: bench-gateway
bench-gateway: setup ## Eight emulated pods by connection, gateway, other routers and oracle: OPTIONS=--quick takes 15 minutes
	@$(BIN)/python -m tests.bench.gateway $(OPTIONS)

.PHONY: bench-losses
bench-losses: setup ## Requests through real Envoys while pods and gateways scale, roll, hang and die: OPTIONS="--requests 1000000 --events 1000" takes half an hour
	@$(BIN)/python -m tests.bench.losses $(OPTIONS)

.PHONY: bench-stalls
bench-stalls: setup ## How long /healthz waits for the largest bodies, and a stream for grammars: OPTIONS="--only grammars"
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.stalls $(OPTIONS)

.PHONY: bench-encoders
bench-encoders: setup ## Text encoders over HTTP against raw torch on the same core, ratios of medians
	@$(BIN)/python -m tests.bench.encoders $(OPTIONS)

.PHONY: bench-backends
bench-backends: setup ## Backends of one-shot models: rates, p99, load times, memory, errors: OPTIONS="--threads 1"
	@$(BIN)/python -m tests.bench.backends $(OPTIONS)

.PHONY: bench-claims
bench-claims: setup ## Batching, compilation, tuning and scaling against the project's first claims: OPTIONS=--quick
	@$(BIN)/python -m tests.bench.claims $(OPTIONS)

.PHONY: bench-tuner
bench-tuner: setup ## The tuner against a sweep of the same space, three models, two objectives: 50 minutes of a quiet machine
	@$(BIN)/python -m tests.bench.tuner $(OPTIONS)

.PHONY: bench-generation-peers
bench-generation-peers: setup ## Install the foreign peers of bench-generation, each in an environment of its own
	@$(BIN)/python -m tests.bench.generation.environments

.PHONY: bench-generation
bench-generation: setup ## Compare generation with its peers: make bench-generation OPTIONS=--quick
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.generation $(OPTIONS)

.PHONY: gpu
gpu: setup ## Prove on a GPU what needs one, within 9 minutes (tests/gpu/run.sh runs without a venv): OPTIONS="--only nvml"
	@bash tests/gpu/run.sh $(OPTIONS)

.PHONY: gpu-rehearsal
gpu-rehearsal: setup ## The same code on a CPU, with tiny sizes
	@OMP_NUM_THREADS=1 bash tests/gpu/run.sh --rehearse $(OPTIONS)

.PHONY: gpu-bundle
gpu-bundle: setup ## Fill build/gpu-bundle with the packages that a bare GPU machine lacks, at most 40 MiB
	@$(BIN)/python -m tests.gpu.bundle
