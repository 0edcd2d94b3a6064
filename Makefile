# The commands of a working day. Each does its own set-up: see .ci/setup.sh.

.DEFAULT_GOAL := help
.PHONY: help build demo test bench

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the binary, optimised, in target/release
	@.ci/setup.sh build
	@PATH="$$PATH:$$HOME/.cargo/bin" cargo build --release --bin ringway

demo: ## start the appliance with origins of its own on 8480 and 8481; Ctrl-C ends it
	@.ci/setup.sh demo
	@PATH="$$PATH:$$HOME/.cargo/bin" cargo build --release --bin ringway
	@PATH="$$PATH:$$HOME/.cargo/bin" exec cargo run --quiet --release --bin ringway -- demo

test: ## all that a change must pass
	@.ci/run

bench: ## throughput and latency against the proxies installed here, then what merging costs, under 4 minutes
	@.ci/setup.sh bench
	@PATH="$$PATH:/usr/sbin:$$HOME/.cargo/bin" bench/run.sh
	@PATH="$$PATH:$$HOME/.cargo/bin" cargo bench --quiet -p ringway-bench --bench merge -- --figures
