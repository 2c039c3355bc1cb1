"""The importer of Gemini CLI. `session` has the entry point."""
