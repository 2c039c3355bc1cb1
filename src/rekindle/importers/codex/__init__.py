"""The importer of Codex. `session` has the entry point."""
