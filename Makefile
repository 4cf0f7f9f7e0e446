PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
# Real data for the tests that need some; they skip where it is absent.
export TSADC_DATA ?= $(wildcard $(abspath ../shared/data))

.PHONY: demo test check format fuzz audit notebook clean bench-general bench-choices bench-network bench-studies bench-speed \
	bench-cluster bench-detectors bench-export bench-feedback bench-scale bench-serve bench-serve-faults bench-stream results s3-server onnx-node

demo: $(READY)
	$(VENV)/bin/tsadc demo --out demo

PYTEST := $(VENV)/bin/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

test: $(READY)
	$(PYTEST)

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PYTEST) -m "not slow"

# 10,000 damaged files, 1,000 damaged models and 10,000 damaged requests; a minute or two on two idle cores. Then 300 requests
# to each operation of the service. docs/guides/safety.md
fuzz: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python tests/fuzz/fuzzer.py --files 10000 --models 1000 --requests 10000 --processes 2
	OMP_NUM_THREADS=1 TSADC_EXAMPLES=300 $(VENV)/bin/python -m pytest -q tests/serve/test_openapi.py

# Known vulnerabilities of the installed packages; it ends after 5 minutes at the latest.
audit: $(READY)
	$(VENV)/bin/python tests/vulnerabilities.py

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

notebook: $(READY)
	$(VENV)/bin/python docs/notebook.py

# A few minutes of one core, and Ray. docs/scaling.md
bench-cluster: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/cluster.py

# A real S3 server for tests/cluster, in an environment of its own, as it needs older packages.
s3-server: .venv-s3/bin/moto_server
.venv-s3/bin/moto_server:
	$(PYTHON) -m venv .venv-s3
	.venv-s3/bin/pip install --quiet 'moto[s3]>=5,<6' flask flask-cors

# onnxruntime for Node, for the JavaScript of docs/guides/export.md in tests/export.
onnx-node: .node/node_modules/onnxruntime-web
.node/node_modules/onnxruntime-web:
	npm install --prefix .node --ignore-scripts --no-audit --no-fund --silent onnxruntime-web@1

bench-speed: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/speed.py
	$(VENV)/bin/python benchmarks/speed_report.py

# Resumes where it was interrupted.
bench-choices: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/choices.py $(TSADC_DATA) --cache .bench-choices

# A quarter of an hour; resumes where it was interrupted.
bench-feedback: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/feedback.py $(TSADC_DATA) --cache .bench-feedback

# A few minutes; resumes where it was interrupted. Remove benchmarks/results/stream.json to measure again.
bench-stream: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/stream.py $(TSADC_DATA)

# Some minutes of one core; resumes where it was interrupted. Remove benchmarks/results/scale.json to measure again.
bench-scale: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/scale_entities.py --run

# A few minutes; resumes where it was interrupted. Remove benchmarks/results/export.json to measure again.
bench-export: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/export.py $(TSADC_DATA)

# A minute of load on the live service, on an otherwise idle machine. docs/reliability.md
bench-serve: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/serve.py --seconds 60 --rate 20000 --processes 2

# A quarter of an hour: kills under load, on SQLite and on PostgreSQL.
bench-serve-faults: $(READY)
	PYTHONPATH=tests/serve $(VENV)/bin/python benchmarks/serve_faults.py --kills 100 --processes 2
	PYTHONPATH=tests/serve $(VENV)/bin/python benchmarks/serve_faults.py --kills 50 --processes 2 --postgresql

# About an hour on two cores. This and the runs below resume after an interruption and re-run stale records.
bench-general: $(READY)
	for name in general history; do \
		OMP_NUM_THREADS=1 $(VENV)/bin/tsadc bench run plans/$$name.toml --out benchmarks/results/$$name --processes 2; \
	done
	$(MAKE) results

bench-network: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/tsadc bench run plans/network.toml --out benchmarks/results/network --processes 2
	$(MAKE) results

bench-studies: $(READY)
	for name in ablation contamination; do \
		OMP_NUM_THREADS=1 $(VENV)/bin/tsadc bench run plans/$$name.toml --out benchmarks/results/$$name --processes 2; \
	done
	$(MAKE) results

# Plans of experiments of the paper with records of their own; `scorings` shows records of `main`.
PAPER := main eta kappa ablation loss masking cost
DRAWN := main eta kappa
TABLE := $(VENV)/bin/tsadc bench table
RECORDS := benchmarks/results

# The tables in docs/tables, from plans and records alone.
results: $(READY)
	$(VENV)/bin/tsadc bench families $(RECORDS)/general --plan plans/general.toml --choices $(RECORDS)/choices.json \
		--out docs/tables/general.md
	$(TABLE) $(RECORDS)/general --plan plans/general.toml --brief --out docs/tables/general-protocols.md
	for name in history network ablation contamination; do \
		$(TABLE) $(RECORDS)/$$name --plan plans/$$name.toml --brief --out docs/tables/$$name.md || exit 1; \
	done
	for name in $(PAPER); do \
		$(TABLE) $(RECORDS)/paper/$$name --plan plans/paper/$$name.toml --brief --out docs/tables/paper-$$name.md \
			|| exit 1; \
	done
	$(TABLE) $(RECORDS)/paper/main --plan plans/paper/scorings.toml --brief --out docs/tables/paper-scorings.md
	for name in $(DRAWN); do \
		$(VENV)/bin/tsadc bench report $(RECORDS)/paper/$$name --plan plans/paper/$$name.toml \
			--out docs/paper-$$name.svg > /dev/null || exit 1; \
	done
	$(VENV)/bin/python benchmarks/paper/cleaned.py --table docs/tables/paper-cleaned.md
	$(VENV)/bin/python benchmarks/paper/impurity.py --table docs/tables/paper-impurity.md
	for name in plant sleep; do \
		$(VENV)/bin/python benchmarks/paper/approximation.py $$name --table docs/tables/paper-approximation-$$name.md \
			|| exit 1; \
	done
	for name in audit cleaning feedback imputation; do \
		$(VENV)/bin/python benchmarks/$$name.py --table docs/tables/$$name.md || exit 1; \
	done
	$(VENV)/bin/python benchmarks/detectors.py --table
	$(VENV)/bin/python benchmarks/speed_report.py

# Resumes where it was interrupted.
bench-detectors: $(READY)
	$(VENV)/bin/python benchmarks/detectors.py
	$(VENV)/bin/python benchmarks/detectors.py --table

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tsadc needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $(READY)
