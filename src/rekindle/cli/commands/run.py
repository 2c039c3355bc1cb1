"""Stand before an ACP agent: behave like it, and record every session.

Put it before the agent's command wherever an editor is told how to start the agent.

example:
  rekindle run -- opencode acp
"""

import argparse
import os
from pathlib import Path

from rekindle.cli.arguments import budget, seconds
from rekindle.errors import UsageError
from rekindle.runtime.agent_process import AgentProcess
from rekindle.runtime.log import Log
from rekindle.runtime.signals import Signals
from rekindle.store.address import (
    address_help,
    backend_for,
    default_address,
    requested_address,
)

_GRACE = 5.0
_HANDOVER_BUDGET = 40_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "rekindle run [OPTIONS] -- COMMAND ARGS…"
    parser.add_argument("--store", help=f"where to record: {address_help()}")
    parser.add_argument(
        "--strict", action="store_true", help="refuse what the specification forbids"
    )
    parser.add_argument(
        "--no-handover",
        dest="handover",
        action="store_false",
        help="when an agent has lost a session, say so instead of telling it the record",
    )
    parser.add_argument(
        "--handover-budget",
        type=budget,
        default=_HANDOVER_BUDGET,
        metavar="CHARACTERS",
        help="how much of the record to tell an agent that has lost it (default: %(default)s)",
    )
    parser.add_argument(
        "--takeover", action="store_true", help="take sessions over that another process drives"
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="write what happens to FILE")
    parser.add_argument(
        "--grace",
        type=seconds,
        default=_GRACE,
        metavar="SECONDS",
        help="how long the agent may take to end once the client has left (default: %(default)g)",
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the agent and its arguments"
    )


def main(arguments: argparse.Namespace) -> int:
    """Run the proxy until the agent exits; return the agent's exit code."""
    command = tuple(arguments.command)
    if command[:1] == ("--",):
        command = command[1:]
    if not command:
        raise UsageError("no agent given: rekindle run -- COMMAND ARGS…")
    requested = requested_address(arguments.store)
    signals = Signals()
    with Log(arguments.log) as log:
        agent = AgentProcess(command, grace=arguments.grace)
        try:
            log.note(f"started agent {agent.pid}: {command[0]}")
            # The slow imports come after the agent's start, so that both run at the same time.
            from rekindle import __version__
            from rekindle.cli.agent_command import independent_of_folder
            from rekindle.composition import open_store, recover_store
            from rekindle.model import LeaseHolder
            from rekindle.proxy.connection_state import EngineSettings
            from rekindle.proxy.engine import Engine
            from rekindle.runtime.recorder import Recorder
            from rekindle.runtime.stdio_proxy import StdioProxy
            from rekindle.text.redact.recorded_command import mask_command

            address = requested or default_address()
            log.note(f"recording in {address}")
            recorder = Recorder(
                lambda: open_store(address, create=True, report=log.report),
                log,
                lambda: recover_store(address),
                lambda token: backend_for(address).open_pending(token),
            )
            settings = EngineSettings(
                command=mask_command(independent_of_folder(command)),
                version=__version__,
                is_strict=arguments.strict,
                may_hand_over=arguments.handover,
                handover_budget=arguments.handover_budget,
                may_take_over=arguments.takeover,
                token=os.urandom(4).hex(),
            )
            token = os.urandom(16).hex()
            holder = LeaseHolder(token=token, pid=os.getpid(), machine=os.uname().nodename)
            proxy = StdioProxy(agent, Engine(settings), recorder, log, holder=holder)
            return proxy.run(signals, grace=arguments.grace)
        except BaseException:
            agent.end(_GRACE)
            raise
