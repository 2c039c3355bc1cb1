"""The agent in version 1 of the protocol."""

from rekindle.example_agent.v1.form import FormV1

__all__ = ["FormV1"]
