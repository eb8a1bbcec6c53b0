"""OpenClaw's own programs against a gateway; `make conformance` installs and runs them."""
