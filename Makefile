# Index of the development tasks, which are implemented in crates/xtask.

# Where rustup puts cargo, for shells that do not have it in their path.
export PATH := $(PATH):$(HOME)/.cargo/bin

# The first build of xtask takes a minute: cargo shows its progress, which the alias in .cargo/config.toml hides.
XTASK := cargo build --package xtask && cargo xtask

.PHONY: help demo test check bench soak e2e mutants doc dist clean

help: ## List the tasks (default)
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

demo: ## Run a demonstration: scale, rebalance and roll a Kafka cluster on this machine under load
	@tools/prepare demo && $(XTASK) demo

test: ## Run everything of check, all tests with real Kafka and Kubernetes, and a short fuzz run
	@tools/prepare test && $(XTASK) test

check: ## Run format, tidy, clippy, unit tests and dependency rules: before every commit
	@tools/prepare check && $(XTASK) check

bench: ## Run all benchmarks
	@tools/prepare check && $(XTASK) bench

soak: ## Run one long test (PART=name), or list them with the commit at which each last passed
	@$(if $(PART),tools/prepare $(if $(filter e2e,$(PART)),e2e,test) &&) $(XTASK) soak $(PART)

e2e: ## Run the tests with containers on two nodes (soak PART=e2e); needs root
	@$(MAKE) --no-print-directory soak PART=e2e

mutants: ## Mutation tests of the safety rules, one shard (SHARD=1/16) or all; takes hours
	@tools/prepare mutants && $(XTASK) mutants $(SHARD)

doc: ## Build the guide (target/book) and the documentation of the crates
	@tools/prepare doc && $(XTASK) doc

dist: ## Build the release program and images (ARGS='--base IMAGE@sha256:…')
	@tools/prepare check && $(XTASK) dist $(ARGS)

clean: ## Remove all build results
	@cargo xtask clean
