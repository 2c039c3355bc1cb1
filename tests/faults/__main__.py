"""`make torture`: episodes for so many seconds, several at once, from one seed.

make torture SECONDS=600 SEED="1 2 3"   three long runs, told in docs/reliability.md
make torture SECONDS=60                 a short one, which writes nothing, unless with WRITE=1
make torture SEED=2 EPISODE=123         one episode again
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
from .report import Run
from .storage import NAMESPACE

_LONG = 600.0
_SEVERAL = 3


def main() -> int:
    """Run episodes; return 1 if a promise was broken."""
    asked = arguments(sys.argv[1:])
    _be_alone_with_mounts()
    root = Path(tempfile.mkdtemp(prefix="rekindle-faults-"))
    runs = [_run(seed, asked, root) for seed in asked.seed]
    if asked.write or is_whole(asked):
        report.write(runs)
    if any(run.broken for run in runs):
        return 1
    root.rmdir()
    return 0


def is_whole(asked: argparse.Namespace) -> bool:
    """Tell whether it is a run that the document should tell of."""
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
    """Read what is asked for."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    any_seed = [random.SystemRandom().randrange(10**6)]
    parser.add_argument("--seed", type=int, nargs="+", default=any_seed)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each seed")
    parser.add_argument("--episode", type=int, help="run only this one")
    parser.add_argument("--kind", choices=list(episodes.KINDS), help="run only this kind")
    parser.add_argument("--write", action="store_true", help="write the document in any case")
    return parser.parse_args(words)


def _be_alone_with_mounts() -> None:
    """Become a process whose mounts are seen by nobody else, where that is possible."""
    if os.geteuid() == 0 and not os.environ.get(NAMESPACE) and shutil.which("unshare"):
        ours = [sys.executable, "-m", __package__ or "faults", *sys.argv[1:]]
        os.environ[NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--", *ours])  # noqa: S606 - no shell


def _episodes(seed: int, asked: argparse.Namespace, root: Path) -> Iterator[Outcome]:
    if asked.episode is None:
        order = Order(seed, asked.seconds, root, asked.kind)
        yield from crew.run(order)
        return
    nursery = Nursery()
    yield episodes.run(seed, asked.episode, root, nursery, asked.kind)
    nursery.close()


if __name__ == "__main__":
    sys.exit(main())
