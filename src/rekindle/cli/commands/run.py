"""Start an ACP agent, forward all messages, and record every session.

Your editor starts this command in place of the agent. `rekindle setup`
changes the editor's settings for you.

AGENT is a name from `rekindle agents`. Any other command follows `--`.

example:
  rekindle run claude
  rekindle run -- opencode acp
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.cli.arguments import add_agent, agent_words, budget, seconds, waiting_time
from rekindle.configuration.location import existing_configuration_path
from rekindle.errors import AgentNotStarted, RekindleError, UsageError
from rekindle.process.group import NOT_FOUND
from rekindle.runtime.agent_process import AgentProcess
from rekindle.runtime.log import Log
from rekindle.runtime.signals import Signals
from rekindle.store.address import (
    StoreAddress,
    address_help,
    backend_for,
    default_address,
    platform_address,
    requested_address,
)

if TYPE_CHECKING:
    from rekindle.configuration.file import Configuration
    from rekindle.process.detach import DetachedProcess
    from rekindle.runtime.detachment import Detachment
    from rekindle.runtime.hooks import HookRunner

DEFAULTS = {
    "handover": True,
    "handover_budget": 40_000,
    "takeover": False,
    "agent_option": False,
    "strict": False,
    "log": None,
    "grace": 5.0,
    "detach": None,
}
"""As in `rekindle.configuration.keys`, which is imported only if there is a configuration file."""
_GRACE = 5.0
_WAIT_TEXT = "4h"
_FAILURE, _USAGE = 1, 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments. Values of the configuration file are their defaults."""
    parser.usage = "rekindle run [OPTIONS] (AGENT [ARGS…] | -- COMMAND ARGS…)"
    switch = argparse.BooleanOptionalAction
    parser.add_argument("--store", help=f"where to record: {address_help()}")
    parser.add_argument(
        "--strict", action=switch, help="refuse messages that the specification forbids"
    )
    parser.add_argument(
        "--handover",
        action=switch,
        help="send the history to an agent that has lost a session (the default)",
    )
    parser.add_argument(
        "--handover-budget",
        type=budget,
        metavar="CHARACTERS",
        help="the most characters of that history (default: %(default)s)",
    )
    parser.add_argument(
        "--takeover", action=switch, help="take over sessions that another process uses"
    )
    parser.add_argument(
        "--agent-option",
        action=switch,
        help="give sessions an option with the installed agents, which switches all of them",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append a log of events to FILE")
    parser.add_argument(
        "--grace",
        type=seconds,
        metavar="SECONDS",
        help="the time that the agent has to exit after the client has left (default: %(default)g)",
    )
    parser.add_argument(
        "--detach",
        nargs="?",
        const=_WAIT_TEXT,
        type=waiting_time,
        metavar="DURATION",
        help="let turns continue after the client has left; they wait at most this long for an"
        f" answer, as in --detach=30min (default: {_WAIT_TEXT})",
    )
    parser.add_argument(
        "--no-detach",
        dest="detach",
        action="store_const",
        const=None,
        help="end with the client (the default)",
    )
    # Other commands pass the name of an agent whose command they have looked up.
    parser.add_argument("--agent", metavar="NAME", help=argparse.SUPPRESS)
    add_agent(parser, "a name from `rekindle agents`, or a command")
    # After `add_argument`: a default would change the help of a switch in some versions of Python.
    parser.set_defaults(**DEFAULTS, configuration=None)
    if existing_configuration_path() is not None:
        from rekindle.configuration.file import load_configuration

        configuration = load_configuration()
        values = configuration.section("run") if configuration else {}
        parser.set_defaults(**values, configuration=configuration)


def main(arguments: argparse.Namespace) -> int:
    """Run the proxy until the agent exits; return the agent's exit code."""
    words, is_command = agent_words(arguments.command)
    if not words:
        raise UsageError(
            "no agent given: name one, as in `rekindle run claude`; `rekindle agents` lists them"
        )
    if arguments.detach is not None and not is_command and _is_duration(words[0]):
        raise UsageError(f"the duration follows an equals sign: --detach={words[0]}")
    requested = requested_address(arguments.store)
    detached = None if arguments.detach is None else _detach()
    try:
        code = _run(words, arguments, requested, detached, is_command=is_command)
    except RekindleError as error:
        if detached is not None:
            detached.exit_code = _exit_code(error)
        raise
    if detached is not None:
        detached.exit_code = code
    return code


def _is_duration(word: str) -> bool:
    try:
        waiting_time(word)
    except argparse.ArgumentTypeError:
        return False
    return True


def _exit_code(error: RekindleError) -> int:
    """Return the exit code of an error, which `rekindle.cli.main` prints."""
    if isinstance(error, AgentNotStarted):
        return error.exit_code
    return _USAGE if isinstance(error, UsageError) else _FAILURE


def _detach() -> "DetachedProcess":
    """Continue in a process that the client does not end. Raises UsageError."""
    if os.isatty(0):
        raise UsageError("--detach needs a client on standard input, which is a terminal now")
    from rekindle.process.detach import detach

    return detach()


def _run(
    words: tuple[str, ...],
    arguments: argparse.Namespace,
    requested: StoreAddress | None,
    detached: "DetachedProcess | None",
    *,
    is_command: bool,
) -> int:
    signals = Signals()
    with _open_log(arguments) as log:
        _report_problems(arguments.configuration, log)
        agent = _start(words, arguments, log, is_command=is_command)
        try:
            command = agent.command
            log.note(f"started agent {agent.pid}: {command[0]}")
            # The slow imports come after the agent's start, so that both run at the same time.
            from rekindle import __version__
            from rekindle.cli.agent_command import independent_of_folder
            from rekindle.composition import open_store, recover_store
            from rekindle.model import LeaseHolder
            from rekindle.proxy.connection_state import AgentChoice, EngineSettings
            from rekindle.proxy.engine import Engine
            from rekindle.runtime.host_files import socket_path
            from rekindle.runtime.recorder import Recorder
            from rekindle.runtime.stdio_proxy import StdioProxy
            from rekindle.text.redact.recorded_command import mask_command

            address = requested or _default_address(log)
            log.note(f"recording in {address}")
            recorder = Recorder(
                lambda: open_store(address, create=True, report=log.report),
                log,
                lambda: recover_store(address),
                lambda token: backend_for(address).open_pending(token),
            )
            agents: tuple[AgentChoice, ...] = ()
            if arguments.agent_option:
                from rekindle.cli.agent_choices import choices_for

                agents = choices_for(words, command)
            hooks = _hooks(arguments.configuration, address, log)
            settings = EngineSettings(
                agents=agents,
                agent_name=agents[0].name if agents else "",
                command=mask_command(independent_of_folder(command)),
                version=__version__,
                is_strict=arguments.strict,
                may_hand_over=arguments.handover,
                handover_budget=arguments.handover_budget,
                may_take_over=arguments.takeover,
                outlives_clients=detached is not None,
                has_hooks=hooks is not None,
                token=os.urandom(4).hex(),
            )
            token = os.urandom(16).hex()
            holder = LeaseHolder(
                token=token,
                pid=os.getpid(),
                machine=os.uname().nodename,
                socket=str(socket_path(address, token)),
                version=__version__,
            )
            detachment = None
            if detached is not None:
                detachment = _detachment(detached, arguments, address, holder.socket)
            proxy = StdioProxy(
                agent,
                Engine(settings),
                recorder,
                log,
                holder=holder,
                variables_for=lambda command: _variables_for(command, log),
                detachment=detachment,
                hooks=hooks,
                open_reader=lambda: open_store(address, create=False),
            )
            return proxy.run(signals, grace=arguments.grace)
        except BaseException:
            agent.end(_GRACE)
            raise


def _hooks(
    configuration: "Configuration | None", address: StoreAddress, log: Log
) -> "HookRunner | None":
    """Return the runner of the user's hooks, if there are any."""
    section = {} if configuration is None else configuration.section("hooks")
    if not any(name.startswith("on_") for name in section):
        return None
    from rekindle.composition import open_store
    from rekindle.proxy.step import TurnEventKind
    from rekindle.runtime.hooks import VARIABLE, HookRunner, HookVariables

    if VARIABLE in os.environ:
        log.note("no hooks run, because a hook has started this process")
        return None
    variables = HookVariables(
        lambda: open_store(address, create=False),
        log,
        store=address.as_option,
        include_text=section.get("include_text", False),
    )
    commands = {it: section[f"on_{it}"] for it in TurnEventKind if f"on_{it}" in section}
    return HookRunner(commands, variables, log)


def _detachment(
    detached: "DetachedProcess",
    arguments: argparse.Namespace,
    address: StoreAddress,
    socket: str,
) -> "Detachment":
    from rekindle.runtime.detachment import Detachment

    def count() -> int:
        from rekindle.runtime.host_requests import hosts_of

        return sum(bool((it.status or {}).get("detached")) for it in hosts_of(address))

    log_path = Path(socket).with_suffix(".log")
    return Detachment(detached, wait=arguments.detach, log_path=log_path, count=count)


def _start(
    words: tuple[str, ...], arguments: argparse.Namespace, log: Log, *, is_command: bool
) -> AgentProcess:
    """Start the agent that the words name. Raises AgentNotStarted with a remedy.

    The lookup is imported only for a name, with a configuration file, and for a program that is
    not found.
    """
    if arguments.configuration is None and (is_command or os.sep in words[0]):
        try:
            return AgentProcess(words, grace=arguments.grace)
        except AgentNotStarted as error:
            if error.exit_code != NOT_FOUND:
                raise
    from rekindle.cli.agent_lookup import (
        ChosenAgent,
        check_installed,
        resolve_agent,
        variables_for,
    )

    if arguments.agent is None:
        agent = resolve_agent(words, is_command=is_command)
    else:
        agent = ChosenAgent(words, arguments.agent)
    variables = variables_for(agent, lambda text: log.report(f"warning: {text}"))
    try:
        return AgentProcess(agent.command, grace=arguments.grace, variables=variables)
    except AgentNotStarted as error:
        if error.exit_code == NOT_FOUND:
            check_installed(agent.command)
        raise


def _variables_for(command: tuple[str, ...], log: Log) -> Mapping[str, str]:
    """Return the variables of an agent that a client chooses."""
    from rekindle.cli.agent_lookup import ChosenAgent, variables_for

    return variables_for(ChosenAgent(command), lambda text: log.report(f"warning: {text}"))


# -- errors of the configuration file, which never stop the agent ---------------------------


def _open_log(arguments: argparse.Namespace) -> Log:
    try:
        return Log(arguments.log)
    except UsageError as error:
        configuration: Configuration | None = arguments.configuration
        if configuration is None or configuration.values.get("run.log") != str(arguments.log):
            raise
        log = Log()
        log.report(f"warning: {configuration.path}: `run.log`: {error}; there is no log")
        return log


def _report_problems(configuration: "Configuration | None", log: Log) -> None:
    if configuration is not None:
        for problem in configuration.problems:
            log.report(f"warning: {configuration.described(problem)}")


def _default_address(log: Log) -> StoreAddress:
    try:
        return default_address()
    except UsageError as error:
        address = platform_address()
        log.report(f"warning: {error}; recording in {address}")
        return address
