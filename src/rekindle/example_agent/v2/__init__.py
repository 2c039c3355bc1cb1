"""The agent in version 2 of the protocol."""

from rekindle.example_agent.v2.form import FormV2

__all__ = ["FormV2"]
