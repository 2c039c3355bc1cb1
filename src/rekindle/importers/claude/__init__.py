"""The importer of Claude Code. `session` has the entry point."""
