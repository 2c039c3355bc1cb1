"""`make torture`: episodes for so many seconds, several at once, from one seed.

    python -m faults --seed 7 --seconds 600       a long run; writes docs/reliability.md
    python -m faults --seed 7 --episode 123       one episode of it again
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import crew, episodes, report
from .crew import Order
from .episodes import Outcome
from .nursery import Nursery
from .storage import NAMESPACE



def main() -> int:
    """Run episodes; return 1 if a promise was broken."""
    arguments = _arguments()
    _be_alone_with_mounts()
    root = Path(tempfile.mkdtemp(prefix="rekindle-faults-"))
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    for outcome in _episodes(arguments, root):
        outcomes.append(outcome)
        if outcome.violation:
            print(report.failure(outcome, root), flush=True)
        elif sys.stderr.isatty():
            print(report.progress(outcomes, time.monotonic() - begin), end="", file=sys.stderr)
    seconds = time.monotonic() - begin
    print(report.summary(outcomes, seconds))
    if arguments.write:
        report.write(outcomes, seconds, arguments.seed)
    is_broken = any(outcome.violation for outcome in outcomes)
    if not is_broken:
        root.rmdir()
    return int(is_broken)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--episode", type=int, help="run only this one")
    parser.add_argument("--kind", choices=list(episodes.KINDS), help="run only this kind")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    return parser.parse_args()


def _be_alone_with_mounts() -> None:
    """Become a process whose mounts are seen by nobody else, where that is possible."""
    if os.geteuid() == 0 and not os.environ.get(NAMESPACE) and shutil.which("unshare"):
        ours = [sys.executable, "-m", __package__ or "faults", *sys.argv[1:]]
        os.environ[NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--", *ours])  # noqa: S606, S607 - no shell


def _episodes(arguments: argparse.Namespace, root: Path) -> Iterator[Outcome]:
    if arguments.episode is None:
        order = Order(arguments.seed, arguments.seconds, root, arguments.kind)
        yield from crew.run(order)
        return
    nursery = Nursery()
    yield episodes.run(arguments.seed, arguments.episode, root, nursery, arguments.kind)
    nursery.close()


if __name__ == "__main__":
    sys.exit(main())
