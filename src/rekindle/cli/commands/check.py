"""Check whether an ACP agent keeps the protocol's rules for sessions, and say where it does not.

It starts the agent several times, kills it, and works in a temporary folder. A turn is had with
--prompt; what needs one is skipped where the agent cannot run any.

exit codes:
  0 every MUST that could be judged is met     3 it cannot be checked, or runs no turn and
  1 one is not                                   has to (--require-turn)
  2 wrong usage                                126, 127 it cannot be started

example:
  rekindle check -- opencode acp
  rekindle check --protocol 2 --only replay --json -- my-agent --acp
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from rekindle.cli.arguments import add_command_after_dashes, seconds
from rekindle.cli.formatting import one_line, print_json
from rekindle.cli.progress import ProgressBar
from rekindle.cli.render.conformance import described, print_report
from rekindle.conformance import (
    LONG_PROMPT,
    PROMPT,
    SCENARIOS,
    TIMEOUT,
    CheckReport,
    CheckSettings,
    is_failure,
    orphans,
    run_check,
)
from rekindle.errors import UsageError

CANNOT_BE_CHECKED = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_command_after_dashes(parser)
    parser.usage = "rekindle check [OPTIONS] -- COMMAND ARGS…"
    parser.add_argument(
        "--protocol", type=int, choices=(1, 2), default=1, help="version of ACP (default: 1)"
    )
    parser.add_argument(
        "--prompt", default=PROMPT, metavar="TEXT", help='what to prompt (default: "%(default)s")'
    )
    parser.add_argument(
        "--long-prompt",
        default=LONG_PROMPT,
        metavar="TEXT",
        help='what to prompt, and then cancel (default: "%(default)s")',
    )
    parser.add_argument("--login", metavar="ID", help="sign in first, in this way of the agent's")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=SCENARIOS,
        metavar="NAME",
        help=f"run one scenario; can be repeated: {', '.join(SCENARIOS)}",
    )
    parser.add_argument(
        "--patience",
        type=seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="how long to wait for an answer, or the end of a turn (default: %(default)g)",
    )
    parser.add_argument(
        "--require-turn", action="store_true", help="end with 3 if the agent cannot run a turn"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: see docs/check.md")


def main(arguments: argparse.Namespace) -> int:
    """Check the agent, and print the report."""
    command = tuple(arguments.command)
    if not command:
        raise UsageError("no agent given: rekindle check -- COMMAND ARGS…")
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
        )
        with orphans.killed_at_exit():
            report = asyncio.run(_run(settings, arguments.only))
    if arguments.json:
        print_json(described(report, command))
    else:
        print_report(report)
    obstacle = report.obstacle or (report.no_turns if arguments.require_turn else "")
    if obstacle:
        if sys.stdout is not None:
            sys.stdout.flush()
        print(f"rekindle: cannot be checked: {one_line(obstacle)}", file=sys.stderr)
        return CANNOT_BE_CHECKED
    return 1 if any(map(is_failure, report.results)) else 0


async def _run(settings: CheckSettings, only: list[str]) -> CheckReport:
    """Run the scenarios. SIGTERM and SIGHUP cancel them, which ends the agent."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, ValueError):
                loop.add_signal_handler(number, task.cancel)
    with ProgressBar("Checking") as bar:
        try:
            return await run_check(settings, only, bar.update)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
