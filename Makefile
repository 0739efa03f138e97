# Needs Python 3.10 or newer and make; everything else goes into $(VENV).

VENV ?= .venv
# The first of these that is new enough makes $(VENV).
PYTHON ?= python3.14 python3.13 python3.12 python3.11 python3.10 python3 python
MODEL ?= resnet50

# Without a C compiler the package ziglang links what is compiled.
LINKER = $(shell for cc in "$$CC" cc gcc clang; do command -v "$$cc" >/dev/null 2>&1 && exit; done; echo ,linker)

CHECK_PYTHON = -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1

# $(call install,EXTRA): quiet, but for one line.
install = printf 'Installing relay-layout[$(1)] into $(VENV) ... '; start=$$(date +%s); \
	$(VENV)/bin/python -m pip install -qq --no-input --disable-pip-version-check \
		--constraint constraints.txt --editable '.[$(1)$(LINKER)]' && \
	echo "$$(($$(date +%s) - start)) s" && touch $(2)

.PHONY: help demo test lint format docs picture sweep clean distclean

help:
	@echo 'make demo    compile and run $(MODEL), compare with ONNX Runtime (MODEL=resnet18 for another)'
	@echo 'make test    lint and test, all but the slow tests'
	@echo 'make docs    write what the documentation takes from the code, and run every snippet of it'
	@echo 'make picture take the picture of a report in docs/ anew, with Chromium'
	@echo 'make sweep   the slow tests, and new examples for those that draw them'
	@echo 'make lint    ruff, mypy and shellcheck'
	@echo 'make format  let ruff format and mend'
	@echo 'make clean   remove what tools left; make distclean also removes $(VENV)'

demo: $(VENV)/.demo-installed
	@$(VENV)/bin/python -m relay_layout.cli.demo --model $(MODEL)

# A test that hangs says where, and costs its own process alone.
test: lint
	@$(VENV)/bin/python -m pytest --numprocesses=auto --maxprocesses=4 --no-loadscope-reorder \
		-o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true --max-worker-restart=1

sweep: $(VENV)/.dev-installed
	@$(VENV)/bin/python -m pytest -m "slow or hypothesis" --hypothesis-profile=sweep

lint: $(VENV)/.dev-installed
	@$(VENV)/bin/ruff check --quiet
	@$(VENV)/bin/ruff format --check --quiet
	@$(VENV)/bin/mypy
	@$(VENV)/bin/shellcheck .ci/run scripts/*.sh

docs: $(VENV)/.dev-installed
	@$(VENV)/bin/python -m scripts.operator_table
	@$(VENV)/bin/python -m pytest tests/test_docs.py

picture: $(VENV)/.dev-installed
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && cd "$$folder" && export PYTHONPATH='$(CURDIR)' && \
	python='$(abspath $(VENV))/bin/python' && \
	$$python -m relay_layout compile resnet18 -o it.rla --threads 2 --desired-layout NHWC --report resnet18.html && \
	$$python -m relay_layout run it.rla --threads 2 --repeat 30 --profile --report resnet18.html && \
	$$python -m scripts.screenshot resnet18.html -o '$(CURDIR)/docs/report.png' --node maxpool --size 1600,1120

format: $(VENV)/.dev-installed
	@$(VENV)/bin/ruff check --quiet --fix
	@$(VENV)/bin/ruff format

$(VENV)/.demo-installed: $(VENV)/.created pyproject.toml constraints.txt
	@$(call install,demo,$@)

# What lint and tests need holds what the demo needs.
$(VENV)/.dev-installed: $(VENV)/.created pyproject.toml constraints.txt
	@$(call install,dev,$@ $(VENV)/.demo-installed)

$(VENV)/.created:
	@found=; if ! $(VENV)/bin/python $(CHECK_PYTHON); then \
		for python in $(PYTHON); do \
			if "$$python" $(CHECK_PYTHON); then found=$$python; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo 'make: no Python 3.10 or newer with venv and ensurepip found; name one: make PYTHON=/path/to/python3' >&2; \
			exit 1; \
		fi; \
		"$$found" -m venv $(VENV); \
	fi
	@touch $@

clean:
	rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
