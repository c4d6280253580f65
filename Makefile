# The index of development tasks; what they do is in crates/xtask.

# Where rustup puts cargo, for shells that do not have it in their path.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help demo test check bench soak doc clean

help: ## This list (default)
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' Makefile

demo: ## A short demonstration on this machine
	@tools/prepare demo && cargo xtask demo

test: ## Everything of check, then all tests with real Kafka, and a short fuzz run
	@tools/prepare test && cargo xtask test

check: ## Format, tidy, clippy, unit tests, dependency rules: before every commit
	@tools/prepare check && cargo xtask check

bench: ## All benchmarks
	@tools/prepare check && cargo xtask bench

soak: ## Long stories with real clusters, and crash tests for longer (two hours)
	@tools/prepare test && cargo xtask soak

doc: ## The documentation of our crates
	@tools/prepare check && cargo xtask doc

clean: ## Remove everything that was built here
	@tools/prepare check && cargo xtask clean
