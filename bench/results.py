"""The file with the results: `make bench` writes its first part, and `make load` the rest."""

from pathlib import Path

FOLDER = Path(__file__).parent
_PATH = FOLDER / "RESULTS.md"
_BETWEEN = "<!-- What follows is written by `make load`. -->\n"


def write_costs(report: str) -> None:
    """Write what Rekindle costs."""
    _, mark, load = _read()
    _PATH.write_text(f"{report.rstrip()}\n\n{mark}{load}", encoding="utf-8")


def write_load(head: str, sections: dict[str, str]) -> None:
    """Write how it stands under load, by title; what was not measured now stays as it was."""
    costs, _, load = _read()
    had = {it.partition("\n")[0]: f"## {it.strip()}" for it in load.split("\n## ")[1:]}
    report = "\n\n".join([head, *{**had, **sections}.values()])
    _PATH.write_text(f"{costs.rstrip()}\n\n{_BETWEEN}\n{report}\n", encoding="utf-8")


def _read() -> tuple[str, str, str]:
    return _PATH.read_text(encoding="utf-8").partition(_BETWEEN)
