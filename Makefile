# The index of development tasks; what they do is in crates/xtask.

# Where rustup puts cargo, for shells that do not have it in their path.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help demo test check bench soak mutants doc dist clean

help: ## List the tasks (default)
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

demo: ## Run a demonstration: a Kafka cluster on this machine changes its shape under load
	@tools/prepare demo && cargo xtask demo

test: ## Run everything of check, all tests with real Kafka and Kubernetes, and a short fuzz run
	@tools/prepare test && cargo xtask test

check: ## Run format, tidy, clippy, unit tests and dependency rules: before every commit
	@tools/prepare check && cargo xtask check

bench: ## Run all benchmarks
	@tools/prepare check && cargo xtask bench

soak: ## Run one long test (PART=name), or list them with the commit at which each last passed
	@$(if $(PART),tools/prepare test &&) cargo xtask soak $(PART)

mutants: ## See whether tests notice changes of the code that decides, in one shard (SHARD=1/16) or all; hours
	@tools/prepare mutants && cargo xtask mutants $(SHARD)

doc: ## Build the documentation of the crates
	@tools/prepare check && cargo xtask doc

dist: ## Build the release program and images (ARGS='--base ARG=IMAGE@sha256:… --kafka VERSION=IMAGE@sha256:…')
	@tools/prepare check && cargo xtask dist $(ARGS)

clean: ## Remove everything that was built here
	@cargo xtask clean
