"""The importer of OpenCode. `session` has the entry point."""
