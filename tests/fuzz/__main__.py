"""`make fuzz`: gives targets bytes, led by what they reach in our code, until time is up.

    python -m fuzz SECONDS [TARGET]     all targets, or one
    python -m fuzz TARGET FILE          once more what has failed; FILE may be seed:NUMBER

What fails is kept in `.fuzz/`. A corpus is made of the golden transcripts each time.
"""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

SEED = "seed:"
FOUND = Path(".fuzz")
_LONGEST = 20_000
_PATIENCE = 20
_MOST_MEMORY = 2000


def main(words: list[str]) -> int:
    """Do what is asked for."""
    match words:
        case [seconds, *named] if seconds.isdigit():
            from fuzz.targets import TARGETS

            names = named or list(TARGETS)
            return max(_fuzz(name, max(1, int(seconds) // len(names))) for name in names)
        case ["--", name, *arguments]:
            return _be_fuzzed(name, arguments)
        case [name, path]:
            from fuzz.targets import TARGETS

            TARGETS[name](_read(path))
            return 0
        case _:
            print(__doc__)
            return 2


def _fuzz(name: str, seconds: int) -> int:
    """Fuzz one target, in a process of its own: it ends with the first thing that it finds."""
    from fuzz.seeds import corpus

    FOUND.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        for data in corpus(name):
            (Path(folder) / sha256(data).hexdigest()).write_bytes(data)
        options = {
            "max_total_time": seconds,
            "max_len": _LONGEST,
            "timeout": _PATIENCE,
            "rss_limit_mb": _MOST_MEMORY,
            "artifact_prefix": f"{FOUND}/{name}-",
            "print_final_stats": 1,
        }
        arguments = [f"-{option}={value}" for option, value in options.items()]
        command = [sys.executable, "-m", "fuzz", "--", name, *arguments, folder]
        print(f"== {name}, {seconds} s", flush=True)
        code = subprocess.run(command, check=False).returncode
    if code:
        print(f"== {name} failed; again: make fuzz TARGET={name} FILE=.fuzz/{name}-…")
    return 1 if code else 0


def _read(path: str) -> bytes:
    if path.startswith(SEED):
        return made_of(int(path.removeprefix(SEED)))
    return Path(path).read_bytes()


def made_of(seed: int) -> bytes:
    """Return the bytes that a number stands for."""
    return Random(seed).randbytes(2000)


def _be_fuzzed(name: str, arguments: list[str]) -> int:
    import atheris

    with atheris.instrument_imports(include=["rekindle"]):
        from fuzz.targets import TARGETS
    atheris.Setup([name, *arguments], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
