.PHONY: serve test quick release-check docs format lock clean

serve: ## run the server on http://127.0.0.1:8642
	@scripts/setup run
	@exec .venv/bin/holdfast serve $(ARGS)

test: ## everything: format, lint, types, layers, tests
	@scripts/setup dev
	@scripts/system-packages
	@scripts/check

quick: ## in under a minute: the checks of the code, and the tests that need no server
	@scripts/setup dev
	@scripts/quick

release-check: ## what a release needs besides `test`: documentation, packages, the demo, long campaigns
	@scripts/setup dev
	@scripts/system-packages
	@scripts/release-check

docs: ## build the documentation site into site/, and check its links
	@scripts/setup dev
	@.venv/bin/python scripts/docs.py --check
	@.venv/bin/python scripts/site/build.py site

format: ## write the one format
	@scripts/setup dev
	@.venv/bin/ruff format --quiet .
	@.venv/bin/ruff check --quiet --fix .
	@scripts/with-node biome check --write --log-level=error

lock: ## renew the locked dependencies
	@scripts/setup run
	@scripts/lock

clean:
	rm -rf frontend/node_modules src/holdfast/web third-party
	rm -rf .venv .uv .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* dist site
