PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
# Real data for the tests that need some; they skip where it is absent.
export TSADC_DATA ?= $(wildcard $(abspath ../shared/data))

.PHONY: demo test check format clean bench-quality bench-studies bench-speed bench-detectors results

demo: $(READY)
	$(VENV)/bin/tsadc demo --out demo

test: $(READY)
	$(VENV)/bin/python -m pytest -q -n 2 --dist loadfile

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(MAKE) test

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench-speed: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python benchmarks/speed.py
	$(VENV)/bin/python benchmarks/speed_report.py

# Resumes where it was interrupted.
bench-quality: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/tsadc bench run plans/quality.toml --out benchmarks/results/quality --jobs 2
	$(MAKE) results

# The parts of plans/ablation.toml and plans/contamination.toml that docs/results.md shows.
bench-studies: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/tsadc bench run plans/ablation.toml --out benchmarks/results/ablation --jobs 2
	OMP_NUM_THREADS=1 $(VENV)/bin/tsadc bench run plans/contamination.toml --out benchmarks/results/contamination --jobs 2
	$(MAKE) results

# Experiments of docs/paper.md with a folder of their own; `scorings` is made from the records of `main`.
PAPER := main eta kappa ablation loss masking cost cleaned
DRAWN := main eta kappa

# What README.md shows of docs/results.md.
QUOTED := tsadc ensemble convolutions ridge robust-z random

# The tables of the documents, from plans and records alone.
results: $(READY)
	$(VENV)/bin/tsadc bench table benchmarks/results/quality --into docs/results.md > /dev/null
	$(VENV)/bin/tsadc bench table benchmarks/results/quality --metric auroc $(QUOTED:%=--only detector=%) \
		--into README.md > /dev/null
	$(VENV)/bin/tsadc bench table benchmarks/results/ablation --brief --into docs/results.md > /dev/null
	$(VENV)/bin/tsadc bench table benchmarks/results/contamination --brief --into docs/results.md > /dev/null
	for name in $(PAPER); do \
		$(VENV)/bin/tsadc bench table benchmarks/results/paper/$$name --plan plans/paper/$$name.toml \
			--brief --into docs/paper.md > /dev/null || exit 1; \
	done
	$(VENV)/bin/tsadc bench table benchmarks/results/paper/main --plan plans/paper/scorings.toml \
		--brief --into docs/paper.md > /dev/null
	for name in $(DRAWN); do \
		$(VENV)/bin/tsadc bench report benchmarks/results/paper/$$name --plan plans/paper/$$name.toml \
			--out docs/paper-$$name.svg > /dev/null || exit 1; \
	done
	for file in benchmarks/results/paper/*.json; do \
		$(VENV)/bin/tsadc bench table $$file --into docs/paper.md > /dev/null || exit 1; \
	done
	$(VENV)/bin/python benchmarks/detectors.py --table > /dev/null
	$(VENV)/bin/python benchmarks/speed_report.py > /dev/null

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
