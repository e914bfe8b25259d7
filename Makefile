# Gimlet's front door; `make help` lists the targets. Everything that a machine lacks beyond Rust,
# a C++ compiler and python3 with venv is fetched into .libtorch/ (once; delete it to undo).

# TORCH=0 leaves libtorch out: the language, the data pipeline and the checkpoint formats remain.
TORCH ?= 1
PYTHON ?= python3

ifeq ($(TORCH),0)
FEATURES := --no-default-features
SETUP := cmake
else
FEATURES :=
SETUP := cmake libtorch
endif

# Last on the path, so that the machine's own tools win.
export PATH := $(PATH):$(HOME)/.cargo/bin:$(CURDIR)/.libtorch/venv/bin

# Where cargo puts programs, and where `make install` does.
TARGET := $(or $(CARGO_TARGET_DIR),target)
PREFIX ?= $(HOME)/.local

MDBOOK_VERSION := 0.5.4
MDBOOK := .libtorch/mdbook-$(MDBOOK_VERSION)/bin/mdbook

.DEFAULT_GOAL := help
.PHONY: help quickstart build install wheel wheel-cuda wheel-check test check lint format docs fuzz soak cuda \
  gpu-check libtorch cmake

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "  build, test and lint take TORCH=0 to leave libtorch out"

quickstart: build ## Build, then pretrain and fine-tune small T5s on the text that comes along
	runs/quickstart/run.sh

# Cargo unifies the features of one build, so a `gimlet` built beside `gimlet-torch` would load
# libtorch, which takes 0.3 s, only to print its help. Its work is done by the crates below it, so its
# own code is optimized little.
FRONT := --no-default-features --bin gimlet --config profile.release.package.gimlet.opt-level=1

build: $(SETUP) ## Build target/release/gimlet and gimlet-torch
	cargo build --release $(FRONT)
ifneq ($(TORCH),0)
	cargo build --release --bin gimlet-torch
endif

# libtorch comes along, since the checkout may go; a LIBTORCH of the user's stays where it is.
install: build ## Install both programs and their libtorch (450 MB) below PREFIX (~/.local)
	install -d $(PREFIX)/bin $(PREFIX)/lib
	install -s $(TARGET)/release/gimlet $(PREFIX)/bin
	ln -sf gimlet $(PREFIX)/bin/t5_mesh_transformer
ifneq ($(TORCH),0)
	install -s $(TARGET)/release/gimlet-torch $(PREFIX)/bin
	rm -rf $(PREFIX)/lib/gimlet
ifdef LIBTORCH
	ln -s $(abspath $(LIBTORCH)) $(PREFIX)/lib/gimlet
else
	mkdir $(PREFIX)/lib/gimlet
	cp -R .libtorch/lib .libtorch/build-version $(PREFIX)/lib/gimlet
endif
endif
	@echo "installed: $(PREFIX)/bin/gimlet"

# The programs of a wheel look for libtorch in their environment only, not in this checkout. So cargo compiles
# Gimlet itself, though not its dependencies, again between this and `build`.
wheel: export GIMLET_WHEEL := 1
wheel: build ## Build a wheel for pip and uv into target/wheels; needs what `build` needs
	$(PYTHON) bridge/wheel.py pack $(TARGET)/release target/wheels
	rm $(TARGET)/release/gimlet $(TARGET)/release/gimlet-torch

wheel-cuda: export GIMLET_WHEEL := 1
wheel-cuda: cuda ## The same for NVIDIA GPUs into target/cuda/wheels; needs what `cuda` needs
	$(PYTHON) bridge/wheel.py pack target/cuda/release target/cuda/wheels cuda

# Of the programs that the tests have built: `--workspace` and a test give dependencies the same features.
wheel-check: $(SETUP) ## Check that a wheel of the development build trains in a fresh environment
	cargo test --quiet --workspace --no-run --no-default-features --test language
	install -D $(TARGET)/debug/gimlet target/wheel-check/gimlet
	cargo test --quiet --workspace --no-run --test e2e
	install -D $(TARGET)/debug/gimlet-torch target/wheel-check/gimlet-torch
	$(PYTHON) bridge/wheel.py check target/wheel-check

# TESTS narrows it, in cargo's words: TESTS="--test language", TESTS="--package gimlet-data".
test: $(SETUP) ## Run all tests
	@if cargo nextest --version >/dev/null 2>&1; then \
	  cargo nextest run $(FEATURES) $(or $(TESTS),--workspace); \
	else \
	  cargo test --no-fail-fast $(FEATURES) $(or $(TESTS),--workspace --lib --tests) $(TEST_ARGS); \
	fi $(if $(TESTS),,&& cargo test --workspace --doc $(FEATURES))

lint: $(SETUP) ## Check the format, and run clippy and rustdoc with warnings as errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(FEATURES) -- -D warnings
ifneq ($(TORCH),0)
	@# With the example, dependencies have the features that clippy has just checked them with.
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --lib --examples
endif

# The inner loop: `lint` and `test` see the rest.
check: cmake ## Check format, lints and rules without libtorch, of the crates that changed
	cargo fmt --all --check
	cargo clippy --workspace --no-default-features -- -D warnings
	cargo test --quiet --workspace --no-default-features --test tidy -- --skip gin_files

format: ## Format the sources
	cargo fmt --all

docs: $(MDBOOK) ## Build the site of docs/, with a search, into target/docs
	$(MDBOOK) build docs

# Without the server and the optimizer it compiles in three minutes, and builds the site in five seconds.
$(MDBOOK):
	env -u CARGO_TARGET_DIR cargo install mdbook --locked --version $(MDBOOK_VERSION) --no-default-features \
	  --features search --debug --config profile.dev.debug=false --root $(MDBOOK:%/bin/mdbook=%)

# What `cargo fuzz` passes, less the sanitizer, which would need an unstable compiler: the language is
# safe Rust. A target is given so that build scripts and macros are compiled without.
FUZZ_SECONDS ?= 5
# `parse` needs only the language and compiles in a minute; `evaluate` and `encode` need the whole.
FUZZ_TARGETS ?= parse evaluate encode
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS := -Cpasses=sancov-module -Ccodegen-units=1 --cfg=fuzzing $(addprefix \
  -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_SEEDS := tests/language/errors tests/language/config_str tests/language/records tasks/t5/data

fuzz: $(if $(filter-out parse,$(FUZZ_TARGETS)),cmake) ## Feed mutated gin and text to FUZZ_TARGETS for FUZZ_SECONDS (5) each
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --manifest-path fuzz/Cargo.toml \
	  $(if $(filter-out parse,$(FUZZ_TARGETS)),--features whole) \
	  --target-dir target/fuzz --target $(HOST) $(addprefix --bin ,$(FUZZ_TARGETS))
	@set -e; for target in $(FUZZ_TARGETS); do \
	  case $$target in \
	    encode) options="-max_len=2000"; seeds="docs runs/quickstart/data" ;; \
	    *) options="-dict=fuzz/gin.dict"; seeds="$(FUZZ_SEEDS)" ;; \
	  esac; \
	  mkdir -p target/fuzz/corpus/$$target; \
	  target/fuzz/$(HOST)/release/$$target \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=10 $$options \
	    -artifact_prefix=target/fuzz/ -verbosity=0 -print_final_stats=1 \
	    target/fuzz/corpus/$$target $$seeds; \
	done

# What CI runs a sample of. With GIMLET_PYTHON, a Python that has torch, also runs on several machines.
soak: $(SETUP) ## Run the long proofs: kills, outages, fuzzing; about two hours after compiling
	GIMLET_TEST_KILLS=2000 cargo test --workspace $(FEATURES) --test pipeline -- killed
	GIMLET_TEST_KILLS=200 cargo test $(FEATURES) --test e2e -- --include-ignored --nocapture kills::
	cargo test $(FEATURES) --test language -- --ignored
	@# Measurements, which want the machine for themselves.
	cargo test $(FEATURES) --test e2e -- --ignored --test-threads=1 plan:: serve::
	cargo test $(FEATURES) --test e2e -- --ignored --skip plan:: --skip serve::
	$(MAKE) fuzz FUZZ_SECONDS=300

cuda: cmake ## Build for NVIDIA GPUs into target/cuda (fetches 2.6 GB once; needs no GPU)
	$(PYTHON) bridge/setup.py cuda
	LIBTORCH="$${LIBTORCH:-$(CURDIR)/.libtorch-cuda/torch}" \
	  cargo build --release --features cuda --target-dir target/cuda --bin gimlet-torch
	LIBTORCH="$${LIBTORCH:-$(CURDIR)/.libtorch-cuda/torch}" \
	  cargo build --release $(FRONT) --target-dir target/cuda

gpu-check: cmake ## Check numbers on a GPU and measure training and decoding, in under eight minutes; GPUS=8 checks 8 together
	$(PYTHON) bridge/setup.py cuda
	$(PYTHON) benches/gpu_check.py $(if $(PEER_PYTHON),--peer_python=$(PEER_PYTHON)) $(if $(GPUS),--gpus=$(GPUS))

ifdef LIBTORCH
libtorch:
	@$(PYTHON) bridge/setup.py libtorch
else
libtorch: .libtorch/build-version ## Fetch libtorch into .libtorch/, unless LIBTORCH names one

.libtorch/build-version: bridge/setup.py
	@$(PYTHON) bridge/setup.py libtorch
endif

cmake:
	@cmake --version >/dev/null 2>&1 || $(PYTHON) bridge/setup.py cmake
