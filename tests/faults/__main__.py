"""`make torture`: run episodes of a seed for some seconds, several at once.

make torture SECONDS=600 SEED="1 2 3"   three long runs, which write docs/explanation/reliability.md
make torture SECONDS=60                 a short run; it writes the page only with WRITE=1
make torture SEED=2 EPISODE=123         repeat one episode
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

from . import episodes, parallel, report
from .episodes import Outcome
from .fork_server import ForkServer
from .parallel import Order
from .report import Run
from .storage import NAMESPACE

_LONG = 600.0
_SEVERAL = 3


def main() -> int:
    """Run episodes; return 1 if a check failed."""
    asked = arguments(sys.argv[1:])
    _unshare_mounts()
    root = Path(tempfile.mkdtemp(prefix="rekindle-faults-"))
    runs = [_run(seed, asked, root) for seed in asked.seed]
    if asked.write or is_complete(asked):
        report.write(runs)
    if any(run.broken for run in runs):
        return 1
    root.rmdir()
    return 0


def is_complete(asked: argparse.Namespace) -> bool:
    """Return whether this run is long enough for the document."""
    is_all = asked.kind is None and asked.episode is None
    return is_all and asked.seconds >= _LONG and len(asked.seed) >= _SEVERAL


def _run(seed: int, asked: argparse.Namespace, root: Path) -> Run:
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    for outcome in _episodes(seed, asked, root):
        outcomes.append(outcome)
        run = Run(seed, time.monotonic() - begin, outcomes)
        if outcome.violation:
            print(report.failure(outcome, root), flush=True)
        elif sys.stderr.isatty():
            print(report.progress(run), end="", file=sys.stderr)
    run = Run(seed, time.monotonic() - begin, outcomes)
    print(report.summary(run), flush=True)
    return run


def arguments(words: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    any_seed = [random.SystemRandom().randrange(10**6)]
    parser.add_argument("--seed", type=int, nargs="+", default=any_seed)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each seed")
    parser.add_argument("--episode", type=int, help="run only this one")
    parser.add_argument("--kind", choices=list(episodes.KINDS), help="run only this kind")
    parser.add_argument("--write", action="store_true", help="write the document in any case")
    return parser.parse_args(words)


def _unshare_mounts() -> None:
    """Restart in a mount namespace of its own, if possible, so that mounts stay private."""
    if os.geteuid() == 0 and not os.environ.get(NAMESPACE) and shutil.which("unshare"):
        ours = [sys.executable, "-m", __package__ or "faults", *sys.argv[1:]]
        os.environ[NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--", *ours])  # noqa: S606 - no shell


def _episodes(seed: int, asked: argparse.Namespace, root: Path) -> Iterator[Outcome]:
    if asked.episode is None:
        order = Order(seed, asked.seconds, root, asked.kind)
        yield from parallel.run(order)
        return
    fork_server = ForkServer()
    yield episodes.run(seed, asked.episode, root, fork_server, asked.kind)
    fork_server.close()


if __name__ == "__main__":
    sys.exit(main())
