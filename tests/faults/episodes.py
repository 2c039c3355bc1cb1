"""The kinds of episodes, and how to run the episode of a seed and a number."""

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import (
    clocks,
    commands,
    contention,
    damage,
    detaching,
    endurance,
    imports,
    misbehaving,
    pending_changes,
    sharing,
    storage,
    strikes,
)
from .fork_server import ForkServer
from .violation import Violation
from .world import World

_ROUNDS = 12
_LONGEST = "a client that does not read for a minute"

Kind = Callable[[World], None]


def _again_and_again(fault: Kind, times: int = _ROUNDS) -> Kind:
    def episode(world: World) -> None:
        for _ in range(times):
            fault(world)

    return episode


KINDS: dict[str, tuple[Kind, int]] = {
    "strikes": (_again_and_again(strikes.strike_at_random), 60),
    "checkpoints": (_again_and_again(strikes.strike_a_checkpoint, 3), 3),
    "bad agents": (_again_and_again(misbehaving.misbehave), 15),
    "agents that never exit": (misbehaving.never_exit, 5),
    "a client that does not read": (lambda world: misbehaving.do_not_read(world, 1.0), 5),
    _LONGEST: (misbehaving.do_not_read_for_a_minute, 0),
    "a crowd": (contention.all_at_once, 5),
    "shared sessions": (_again_and_again(sharing.share, 6), 20),
    "detached turns": (_again_and_again(detaching.detach, 6), 20),
    "a clock that jumps": (clocks.jump_back, 5),
    "a store that fails": (storage.all_of_them, 5),
    "kills while something waits": (_again_and_again(pending_changes.kill_while_pending, 4), 14),
    "commands that are killed": (commands.kill_commands, 8),
    "imports that are killed": (imports.kill_imports, 3),
    "upgrades that are killed": (commands.kill_migrations, 5),
    "a damaged store": (_again_and_again(damage.damage, 4), 8),
    "damage to a store in use": (_again_and_again(damage.damage_in_use, 4), 8),
    "endurance": (endurance.endure, 2),
}
"""Each kind with its relative frequency."""


@dataclass
class Outcome:
    """The result of an episode."""

    seed: int
    number: int
    kind: str
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    updates: int = 0
    sessions: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    violation: str | None = None


def kind_of(seed: int, number: int) -> str:
    """Return the kind of an episode. A run starts with one of each kind, the longest first."""
    chance = random.Random(f"{seed}")  # noqa: S311 - as below
    others = [kind for kind in KINDS if kind != _LONGEST]
    first = [_LONGEST, *chance.sample(others, len(others))]
    if number < len(first):
        return first[number]
    weights = [weight for _, weight in KINDS.values()]
    chance = random.Random(f"{seed}/{number}/kind")  # noqa: S311 - as below
    return chance.choices(list(KINDS), weights)[0]


def run(
    seed: int, number: int, root: Path, fork_server: ForkServer, only: str | None = None
) -> Outcome:
    """Run one episode. A failed episode keeps its folder."""
    # A string, because the hash of a tuple differs between processes.
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - a seed that can be given again
    kind = only or kind_of(seed, number)
    begin = time.monotonic()
    world = World(root / f"{seed}-{number}", fork_server, chance)
    outcome = Outcome(seed, number, kind)
    try:
        KINDS[kind][0](world)
        world.finish()
    except Violation as violation:
        outcome.violation = str(violation)
    except Exception as error:  # noqa: BLE001 - a mistake of the harness's is a failure, too
        outcome.violation = f"the harness failed: {error!r}"
        (world.folder / "harness.traceback").write_text(traceback.format_exc())
    finally:
        world.close(keep=outcome.violation is not None)
    outcome.seconds = time.monotonic() - begin
    outcome.faults, outcome.skipped = world.faults, world.skipped
    outcome.updates, outcome.sessions = world.updates, len(world.ledger)
    return outcome
