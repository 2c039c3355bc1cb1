"""`make fuzz`: run the targets with bytes that are chosen by code coverage, for some time.

    python -m fuzz SECONDS [TARGET]     all targets, or one
    python -m fuzz TARGET FILE          repeat a failure; FILE may be seed:NUMBER

Failing inputs are kept in `.fuzz/`. Each run builds its corpus from the golden transcripts.
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
_TIMEOUT = 20
_MOST_MEMORY = 2000


def main(words: list[str]) -> int:
    """Run the command; return its exit code."""
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
    """Fuzz one target in a process of its own, which ends at the first failure."""
    from fuzz.seeds import corpus

    FOUND.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        for data in corpus(name):
            (Path(folder) / sha256(data).hexdigest()).write_bytes(data)
        options = {
            "max_total_time": seconds,
            "max_len": _LONGEST,
            "timeout": _TIMEOUT,
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
        return bytes_of_seed(int(path.removeprefix(SEED)))
    return Path(path).read_bytes()


def bytes_of_seed(seed: int) -> bytes:
    """Return the input for a seed."""
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
