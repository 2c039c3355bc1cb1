"""The configuration of editors that start agents."""
