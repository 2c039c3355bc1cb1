"""The file with the results: `make bench` writes its first part, and `make load` the rest."""

from pathlib import Path

FOLDER = Path(__file__).parent
_PATH = FOLDER / "RESULTS.md"
_BETWEEN = "<!-- What follows is written by `make load`. -->\n"


def write_costs(report: str) -> None:
    """Write what Rekindle costs."""
    _, mark, load = _read()
    _PATH.write_text(f"{report.rstrip()}\n\n{mark}{load}", encoding="utf-8")


def write_load(report: str) -> None:
    """Write how it stands under load."""
    costs, _, _ = _read()
    _PATH.write_text(f"{costs.rstrip()}\n\n{_BETWEEN}\n{report}", encoding="utf-8")


def _read() -> tuple[str, str, str]:
    return _PATH.read_text(encoding="utf-8").partition(_BETWEEN)
