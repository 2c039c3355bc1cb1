"""The options of `rekindle run`."""

import argparse

from rekindle.cli.commands import run
from rekindle.proxy.connection_state import EngineSettings
from rekindle.transcript.handover import BUDGET


def test_handover_budget_is_the_default_of_the_engine() -> None:
    # The command cannot import it: that would delay the start of the agent.
    parser = argparse.ArgumentParser()
    run.configure(parser)
    settings = EngineSettings(command=("agent",), version="9")
    assert parser.get_default("handover_budget") == BUDGET == settings.handover_budget
