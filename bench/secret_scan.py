"""Measure the detector of secrets: hits on made-up keys, and false alarms in ordinary text.

    .venv/bin/python bench/secret_scan.py             # print the figures and the misses
    .venv/bin/python bench/secret_scan.py --write     # write docs/explanation/secret-detection.md

Hits: for each rule family of gitleaks (`secret_forms`), random examples in several surroundings. An
example is a hit if its last random part is gone. False alarms: everything that the detector finds
in our own sources and in the installed packages, which hold no real secrets.
"""

import argparse
import random
import shlex
import site
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rekindle.text.redact.detect import find_secrets, mask
from rekindle.text.redact.recorded_command import mask_command
from secret_forms import (
    BY_FORM,
    BY_NAME,
    IN_A_COMMAND,
    NOT_MEASURED,
    example,
)

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "explanation" / "secret-detection.md"
EXAMPLES = 40
SEED = 17

FORM_TEXTS = ("Use {} for it.", 'client = Client("{}")', "VALUE={}", "- {}\n", "see ({}), please")
NAME_TEXTS = ("{upper}={value}", '"{name}": "{value}"', '{camel} = "{value}"', "{name}: {value}")
FORM_COMMANDS = (
    ("agent", "{}"),
    ("agent", "--value={}"),
    ("env", "VALUE={}", "agent"),
    ("bash", "-lc", "export VALUE={}; exec agent"),
    ("agent", '{{"value": "{}"}}'),
)
NAME_COMMANDS = (
    ("env", "{upper}={value}", "agent"),
    ("agent", "--{dashed}={value}"),
    ("agent", "--{dashed}", "{value}"),
    ("docker", "run", "--env={upper}={value}", "agent"),
    ("bash", "-lc", "export {upper}={value}; exec agent"),
    ("agent", '{{"env": {{"{upper}": "{value}"}}}}'),
    ("agent", "--header", "X-{dashed}: {value}"),
)
ORDINARY_COMMANDS = (
    "opencode acp",
    "gemini --experimental-acp --model gemini-2.5-pro",
    "goose acp --with-builtin x",
    "npx -y @zed-industries/claude-code-acp@0.16.0",
    "npx @zed-industries/codex-acp --version 2",
    "codex-acp -c model=gpt-5.1-codex -c sandbox_mode=workspace-write",
    "qwen --acp --approval-mode",
    "python -m myagent --port 8080 --max-tokens 4096 --temperature 0.2",
    "kimi --acp --yolo",
    "uvx --from git+https://github.com/org/agent@v1.2.3 agent acp",
    "cline --acp --config ~/x.json",
    "docker run --rm -i -v /home/me/p:/p -w /p image:1.2 agent acp --log-level debug",
    "env NODE_OPTIONS=--max-old-space-size=4096 PATH=/usr/bin LANG=C.UTF-8 copilot --acp",
    "bash -lc 'source ~/.nvm/nvm.sh && nvm use 22 && exec gemini --experimental-acp'",
    "ssh -i /home/me/.ssh/id_ed25519 -o BatchMode=yes me@host rekindle run -- opencode acp",
    "agent --token-file /run/secrets/token --api-key-env OPENAI_API_KEY --auth oauth",
    "agent --keyboard-layout de --monkeypatch off --compass north --tokenizer cl100k",
    "sh -c 'agent --token \"$TOKEN\" --password ${PASSWORD} --key $(cat key)'",
    "mistral-vibe acp --profile work --session-id 0192f3b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b",
    "deno run --allow-net --allow-read jsr:@org/agent@^1.0.0 acp",
    "auggie --acp --rules ./r.md",
    "java -Xmx2g -jar /opt/agent/agent-3.1.4-all.jar --stdio",
    "hermes acp --sha 4f1c2e9a8b7d",
    "agent --url https://api.example.com/v1 --proxy http://proxy.local:3128 --timeout 30",
)


def hits(examples: Iterator[tuple[str, str]]) -> tuple[int, int, str]:
    """Return the number of hits, of examples, and a masked text that still has a secret."""
    found, total, miss = 0, 0, ""
    for secret, masked in examples:
        total += 1
        if secret in masked:
            miss = miss or masked
        else:
            found += 1
    return found, total, miss


def form_texts(shape: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield secrets and the masked texts around them."""
    for text in FORM_TEXTS:
        for _ in range(EXAMPLES // len(FORM_TEXTS)):
            secret, end = example(shape, chance)
            yield end, mask(text.format(secret))


def form_commands(shape: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield secrets and the masked commands that have them."""
    for command in FORM_COMMANDS:
        for _ in range(EXAMPLES // len(FORM_COMMANDS)):
            secret, end = example(shape, chance)
            yield end, " ".join(mask_command(tuple(word.format(secret) for word in command)))


def _names(name: str) -> dict[str, str]:
    first, *others = name.split("_")
    camel = first + "".join(map(str.title, others))
    return {"name": name, "upper": name.upper(), "camel": camel, "dashed": name.replace("_", "-")}


def name_texts(name: str, shape: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield secrets and the masked texts that name them."""
    for text in NAME_TEXTS:
        for _ in range(EXAMPLES // len(NAME_TEXTS)):
            secret, end = example(shape, chance)
            yield end, mask(text.format(value=secret, **_names(name)))


def name_commands(name: str, shape: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield secrets and the masked commands that name them."""
    for command in NAME_COMMANDS:
        for _ in range(EXAMPLES // len(NAME_COMMANDS)):
            secret, end = example(shape, chance)
            words = tuple(word.format(value=secret, **_names(name)) for word in command)
            yield end, " ".join(mask_command(words))


def whole_commands(text: str, shape: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield secrets and masked command lines."""
    for _ in range(EXAMPLES):
        secret, end = example(shape, chance)
        yield end, mask(text.format(secret))


Row = tuple[str, int, int, str]


def _measure(
    rules: Iterable[str], make: Callable[[str, random.Random], Iterator[tuple[str, str]]]
) -> list[Row]:
    chance = random.Random(SEED)  # noqa: S311 - examples
    return [(rule, *hits(make(rule, chance))) for rule in rules]


def measure() -> dict[str, list[Row]]:
    """Return the rows of each kind of example."""
    return {
        "by its form, in a text": _measure(BY_FORM, lambda it, c: form_texts(BY_FORM[it], c)),
        "by its form, in a command": _measure(BY_FORM, lambda it, c: form_commands(BY_FORM[it], c)),
        "by its name, in a text": _measure(BY_NAME, lambda it, c: name_texts(*BY_NAME[it], c)),
        "by its name, in a command": _measure(
            BY_NAME, lambda it, c: name_commands(*BY_NAME[it], c)
        ),
        "by the command around it": _measure(
            IN_A_COMMAND, lambda it, c: whole_commands(*IN_A_COMMAND[it], c)
        ),
    }


def false_alarms(folder: Path, suffixes: tuple[str, ...]) -> tuple[int, int, Counter[str]]:
    """Return the number of files and lines below a folder, and the findings in them."""
    files = lines = 0
    found: Counter[str] = Counter()
    for path in sorted(folder.rglob("*")):
        if path.suffix in suffixes and path.is_file() and path != DOCUMENT:
            text = path.read_text(encoding="utf-8", errors="replace")
            files, lines = files + 1, lines + text.count("\n")
            for begin, end in find_secrets(text):
                found[f"{path}: {text[max(0, begin - 30) : end]!r}"[:160]] += 1
    return files, lines, found


def _trees() -> dict[str, tuple[Path, tuple[str, ...]]]:
    return {
        "Rekindle's sources": (ROOT / "src", (".py",)),
        "Rekindle's documents": (ROOT / "docs", (".md",)),
        "the installed packages": (Path(site.getsitepackages()[0]), (".py", ".pyi", ".md", ".txt")),
    }


def _rate(rows: list[Row]) -> str:
    found, total = sum(row[1] for row in rows), sum(row[2] for row in rows)
    whole = sum(row[1] == row[2] for row in rows)
    return f"{len(rows)} | {whole} | {found} of {total} | {100 * found / total:.1f} %"


def main() -> None:
    """Measure; print or write the figures."""
    parser = argparse.ArgumentParser(description="measure the detector of secrets")
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    parser.add_argument("--alarms", action="store_true", help="print all false alarms")
    arguments = parser.parse_args()
    kinds = measure()
    table = [f"| {kind} | {_rate(rows)} |" for kind, rows in kinds.items()]
    misses = [
        f"- `{rule}`, {kind}: {found} of {total}"
        for kind, rows in kinds.items()
        for rule, found, total, _ in rows
        if found < total
    ]
    alarms: list[str] = []
    for name, (folder, suffixes) in _trees().items():
        files, lines, found = false_alarms(folder, suffixes)
        count = sum(found.values())
        rate = 100_000 * count / max(1, lines)
        alarms.append(f"| {name} | {files:,} | {lines:,} | {count} | {rate:.1f} |")
        if arguments.alarms:
            print(*found, sep="\n")
    ordinary = [tuple(shlex.split(command)) for command in ORDINARY_COMMANDS]
    masked = sum(mask_command(command) != command for command in ordinary)
    if arguments.alarms:
        print(*(mask_command(it) for it in ordinary if mask_command(it) != it), sep="\n")
    document = _document(table, misses, alarms, f"{masked} of {len(ordinary)}")
    if arguments.write:
        DOCUMENT.write_text(document, encoding="utf-8")
        return
    print(document)
    for kind, rows in kinds.items():
        print(*(f"{kind}: {rule}: {text}" for rule, _, _, text in rows if text), sep="\n")


def _document(table: list[str], misses: list[str], alarms: list[str], commands: str) -> str:
    lines = [
        "# How well secrets are detected",
        "",
        "Rekindle masks secrets in exports, in search results, and in the recorded command of an",
        "agent ([security](security.md)). It guesses them by their form and by their name. This",
        "page has the figures; `bench/secret_scan.py --write` makes it.",
        "",
        "## Hits",
        "",
        "The rule list of gitleaks is the reference. For each rule family, the script makes random",
        f"examples in several surroundings, {EXAMPLES} at most. An example is a hit if its last",
        "random part is gone; a prefix may stay. A rule that a scanner applies only beside a name",
        "is measured beside a name. The detector knows the forms of these families, so the figures",
        "show how complete it is. They prove nothing about the keys of other services.",
        "",
        "| recognised | rule families | without a miss | examples | hits |",
        "|---|---|---|---|---|",
        *table,
        "",
        "Families with misses:",
        "",
        *(misses or ["- none"]),
        "",
        "Not measured, because they are ids, public keys or files:",
        *textwrap.wrap(f"{', '.join(NOT_MEASURED)}.", 100, break_on_hyphens=False),
        "",
        "## False alarms",
        "",
        "Everything that is found in these trees counts as a false alarm, although some of it are",
        "passwords in documentation.",
        "",
        "| tree | files | lines | found | per 100,000 lines |",
        "|---|---|---|---|---|",
        *alarms,
        "",
        f"Ordinary commands of agents with a mask: {commands}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
