# Two commands do everything on a fresh machine: `make demo` and `make test`.
# They need Python 3.11 or newer and nothing else; uv is used where it is found.

ARGS ?=
THIRD ?=
PYTEST = .venv/bin/pytest -n auto --dist worksteal
export PYTHON
# Without bytecode each process of a test compiles dualsql anew (0.25 s), and each run all tests (6 s).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help dev docs docs-serve demo test test-kernel test-long test-all test-exhaustive drills soak fuzz mutants test-sdks test-apps test-typescript test-spark test-javascript test-dialects test-sqlalchemy check docs-check bench audit licences constraints clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

dev: ## make .venv with all that development needs
	@scripts/environment dev

demo: ## the whole idea on real data; ARGS=--serve leaves it running
	@scripts/port_is_free $(ARGS)
	@scripts/environment demo
	@.venv/bin/dualsql demo $(ARGS)

test: ## the quick tests; ARGS goes to pytest
	@scripts/environment dev
	$(PYTEST) -m "not long" $(ARGS)

test-kernel: ## the kernel's own tests, without features and optional packages
	@scripts/environment dev
	.venv/bin/python -m pytest -n auto --dist worksteal -p tests.kernel -m "not long" $(ARGS)

test-long: ## the long tests; THIRD=0, 1 or 2 for a third of them
	@scripts/environment dev
	$(PYTEST) -m "long and not exhaustive" $(if $(THIRD),--third $(THIRD)) $(ARGS)

test-all: ## the quick tests and the long ones
	@scripts/environment dev
	$(PYTEST) -m "not exhaustive" $(ARGS)

test-exhaustive: ## every case of what the long tests run some of, and drills; takes hours
	@scripts/environment dev
	$(PYTEST) -m exhaustive --ignore tests/drills/test_soak.py --ignore tests/sdks --ignore tests/dialects --ignore tests/serve/hosts --ignore tests/web/bridge --ignore tests/spark $(ARGS)

DRILLS = tests/drills --deselect tests/drills/test_soak.py tests/store/test_load.py::test_a_killed_process_leaves_the_table_consistent \
	tests/kept/test_killed.py tests/failures/test_sqlite.py::test_the_disk_is_full tests/failures/test_client.py tests/results/pending/test_restart.py \
	tests/machines/test_standby.py tests/machines/test_shards.py

drills: ## failures on purpose, each with what was lost, what callers saw and how long it took (docs/reliability.md)
	@scripts/environment dev
	DUALSQL_KEEP_DRILLS=1 .venv/bin/pytest $(DRILLS) $(ARGS)

soak: ## MINUTES (60) of mixed load on two workers with each fault once, half on SQLite, half on PostgreSQL (docs/reliability.md)
	@scripts/environment dev
	DUALSQL_KEEP_DRILLS=1 DUALSQL_SOAK_MINUTES=$(or $(MINUTES),60) .venv/bin/pytest -n 0 tests/drills/test_soak.py $(ARGS)

fuzz: ## fuzzers of texts, documents, stored rows, bodies, cells and names, 10 minutes each, SECONDS for others; then requests made of the OpenAPI document, CASES
	@scripts/environment dev
	DUALSQL_FUZZ_SECONDS=$(or $(SECONDS),600) DUALSQL_FUZZ_SEED=$(or $(SEED),$(shell date +%s)) \
		.venv/bin/pytest -n 2 --dist worksteal tests/fuzz $(ARGS)
	DUALSQL_FUZZ_CASES=$(or $(CASES),5000) .venv/bin/pytest -n 2 --timeout 7200 tests/http/test_openapi_fuzz.py -m long $(ARGS)

mutants: ## change each check of access, signatures, rules and limits, and see a test fail; ARGS: words of their names
	@scripts/environment dev
	.venv/bin/python scripts/mutants $(ARGS)

test-sdks: ## tests with the SDKs of hosts, each in an environment of its own
	@scripts/environment dev
	@scripts/sdk_environments
	@scripts/typescript_environment
	.venv/bin/pytest tests/sdks tests/serve/hosts $(ARGS)

test-apps: ## the MCP App inside the AppBridge of MCP Apps, in a real browser; needs Node, npm and Chromium
	@scripts/environment dev
	@scripts/app_environment
	.venv/bin/pytest tests/web/bridge $(ARGS)

test-typescript: ## a TypeScript client generated from the OpenAPI document, against a server; needs Node and npm
	@scripts/environment dev
	@scripts/typescript_environment
	.venv/bin/pytest tests/http/typescript $(ARGS)

test-spark: ## Apache Spark: a master, two workers and the Thrift server, six JVMs of 2 GB in all; needs Java 17
	@scripts/environment dev
	@scripts/spark_environment
	.venv/bin/pytest tests/spark $(ARGS)

test-javascript: ## the JavaScript client: packed, installed, in node, under tsc and in a browser; needs Node, npm and Chromium
	@scripts/environment dev
	@scripts/typescript_environment
	.venv/bin/pytest tests/javascript $(ARGS)

test-dialects: ## every statement compiled by the dialects of databases that cannot run here (docs/databases.md); plugins/ on chDB and Firebird
	@scripts/environment dev
	@scripts/dialect_environment
	.venv/bin/pytest tests/dialects $(ARGS)

test-sqlalchemy: ## what depends on SQLAlchemy's private names, with the newest SQLAlchemy 2.1 of the index
	@scripts/environment dev
	@scripts/newest_sqlalchemy $(ARGS)

check: ## lint, format, types and the import laws
	@scripts/environment dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

docs: ## build the documentation as a site, with the reference of the code, in .docs/site
	@scripts/environment dev
	@.venv/bin/python scripts/docs

docs-serve: docs ## build it and show it at http://127.0.0.1:8090
	@.venv/bin/python -m http.server --bind 127.0.0.1 --directory .docs/site 8090

docs-check: ## the documents: links, tables, code, and figures as they are recomputed
	@scripts/environment dev
	.venv/bin/pytest -m "not long" tests/test_docs.py tests/docs tests/test_benchmarks.py $(ARGS)

bench: ## measure, print a table, write benchmarks/results/
	@scripts/environment bench
	.venv/bin/python -m benchmarks $(ARGS)

audit: ## known vulnerabilities of the packages in constraints.txt; ARGS goes to pip-audit
	@scripts/audit $(ARGS)

licences: ## the licence of each package of the environment; ARGS goes to pip-licenses
	@scripts/environment dev
	@test -x .licences/bin/pip-licenses || { python3 -m venv .licences && .licences/bin/pip install -q pip-licenses==5.5.5; }
	@.licences/bin/pip-licenses --python .venv/bin/python --from mixed --order license $(ARGS)

# --no-emit-workspace and a lock file thrown away: no index host and no path gets into git.
constraints: ## resolve constraints.txt anew (needs uv)
	uv lock --quiet --upgrade
	uv export --quiet --no-header --no-annotate --no-hashes --no-emit-workspace \
		--all-extras --all-groups --output-file constraints.txt
	rm -f uv.lock

clean: ## remove all that was made here: environment, caches, built data
	rm -rf .venv .bench .demo .sdks .dialects .plugins .spark .apps .audit .licences .typescript .sqlalchemy .release dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .docs
