"""Text for people and for searching: sanitize, redact, measure, shorten. Knows no protocol."""
