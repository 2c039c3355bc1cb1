"""Check an ACP agent against the protocol's rules for sessions.

It starts and kills the agent several times, in a temporary folder. Some rules
need a turn, which it starts with --prompt. If the agent cannot run a turn,
these rules are not tested.

exit codes:
  0  the agent meets every MUST that applies to it
  1  it violates at least one
  2  wrong usage
  3  it cannot be checked, or a MUST could not be tested (see --allow-untested)
  126, 127  it cannot be started

example:
  rekindle check opencode
  rekindle check --protocol 2 --only replay --json -- my-agent --acp
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from rekindle.cli.agent_lookup import installed_agent
from rekindle.cli.arguments import add_agent, agent_words, seconds
from rekindle.cli.formatting import one_line, print_json
from rekindle.cli.messages import print_error
from rekindle.cli.progress import ProgressBar
from rekindle.cli.render.check_files import (
    check_writable,
    prepare_folder,
    write_junit,
    write_transcripts,
)
from rekindle.cli.render.conformance import described, print_report
from rekindle.conformance import (
    LONG_PROMPT,
    PROMPT,
    SCENARIOS,
    TIMEOUT,
    CheckReport,
    CheckSettings,
    orphans,
    run_check,
)
from rekindle.errors import UsageError

CANNOT_BE_CHECKED = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "rekindle check [OPTIONS] (AGENT [ARGS…] | -- COMMAND ARGS…)"
    parser.add_argument(
        "--protocol", type=int, choices=(1, 2), default=1, help="the version of ACP (default: 1)"
    )
    parser.add_argument(
        "--prompt", default=PROMPT, metavar="TEXT", help='the prompt (default: "%(default)s")'
    )
    parser.add_argument(
        "--long-prompt",
        default=LONG_PROMPT,
        metavar="TEXT",
        help='the prompt of a turn that is cancelled (default: "%(default)s")',
    )
    parser.add_argument(
        "--login", metavar="ID", help="log in first, with this authentication method of the agent"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=SCENARIOS,
        metavar="NAME",
        help=f"run only this scenario; can be repeated: {', '.join(SCENARIOS)}",
    )
    parser.add_argument(
        "--patience",
        type=seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="the time limit for an answer, or for a turn (default: %(default)g)",
    )
    parser.add_argument(
        "--allow-untested",
        action="store_true",
        help="exit with 0 also if a MUST could not be tested",
    )
    parser.add_argument(
        "--require-turn", action="store_true", help="exit with 3 if the agent cannot run a turn"
    )
    parser.add_argument(
        "--allow-logout", action="store_true", help="test the agent's logout, which takes effect"
    )
    parser.add_argument(
        "--transcripts",
        type=Path,
        metavar="DIR",
        help="write every message to files in this folder, one for each process of the agent",
    )
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write the results as JUnit XML to this file"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_agent(parser, "a name from `rekindle agents`, or a command")


def main(arguments: argparse.Namespace) -> int:
    """Check the agent, and print the report."""
    words, is_command = agent_words(arguments.command)
    if not words:
        raise UsageError("no agent given: name one, as in `rekindle check claude`")
    command = installed_agent(words, is_command=is_command).command
    transcripts: Path | None = arguments.transcripts
    if transcripts is not None:
        prepare_folder(transcripts)
    if arguments.junit is not None:
        check_writable(arguments.junit)
    with tempfile.TemporaryDirectory(
        prefix="rekindle-check-", ignore_cleanup_errors=True
    ) as folder:
        settings = CheckSettings(
            command=command,
            # Agents that resolve links then report the same path.
            folder=Path(folder).resolve(),
            protocol=arguments.protocol,
            prompt=arguments.prompt,
            long_prompt=arguments.long_prompt,
            login=arguments.login,
            timeout=arguments.patience,
            allow_logout=arguments.allow_logout,
        )
        with orphans.killed_at_exit():
            report = asyncio.run(_run(settings, arguments.only))
    if transcripts is not None:
        write_transcripts(report, command, transcripts)
    if arguments.junit is not None:
        write_junit(report, arguments.junit)
    if arguments.json:
        print_json(described(report, command, transcripts))
    else:
        print_report(report, transcripts)
    return _exit_code(report, arguments)


def _exit_code(report: CheckReport, arguments: argparse.Namespace) -> int:
    obstacle = report.obstacle or (report.no_turns if arguments.require_turn else "")
    if obstacle:
        if sys.stdout is not None:
            sys.stdout.flush()
        print_error(f"the agent cannot be checked: {one_line(obstacle)}")
        return CANNOT_BE_CHECKED
    if not report.is_met:
        return 1
    return 0 if report.is_passed or arguments.allow_untested else CANNOT_BE_CHECKED


async def _run(settings: CheckSettings, only: list[str]) -> CheckReport:
    """Run the scenarios. SIGTERM and SIGHUP cancel them, which ends the agent."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, ValueError):
                loop.add_signal_handler(number, task.cancel)
    with ProgressBar("checking") as bar:
        try:
            return await run_check(settings, only, bar.update)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
