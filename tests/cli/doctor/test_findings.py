"""Single checks of `rekindle doctor`, without a process."""

import json
from pathlib import Path
from typing import cast

import pytest

from rekindle.cli.doctor import Level
from rekindle.cli.doctor.database import check_integrity
from rekindle.cli.doctor.editors import check_editors
from rekindle.store.sqlite.inspect import Examination


def test_agent_named_rekindle_is_not_taken_for_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    file = tmp_path / ".config/zed/settings.json"
    file.parent.mkdir(parents=True)
    command = {"command": f"{tmp_path}/gone/rekindle", "args": ["run", "--", "x"]}
    file.write_text(json.dumps({"agent_servers": {"rekindle": command}}), encoding="utf-8")
    (finding,) = check_editors()
    assert (finding.level, finding.facts["command"]) == (Level.PROBLEM, command["command"])


class Unsound:
    """A store whose integrity check returns these errors."""

    def __init__(self, *complaints: str) -> None:
        self._complaints = list(complaints)

    def complaints(self, *, full: bool) -> list[str]:
        assert not full
        return self._complaints


@pytest.mark.parametrize(
    ("pages", "said"),
    [(1, "page 1"), (3, "page 1; page 2; page 3"), (10, "page 1; page 2; page 3; and 7 more")],
)
def test_only_the_first_of_many_errors_are_reported(pages: int, said: str) -> None:
    lines = ["*** in database main ***", *(f"page {n}" for n in range(1, pages + 1))]
    store = cast("Examination", Unsound("\n".join(lines)))
    (finding,) = check_integrity(store, Path("/s.db"), full=False)
    assert finding.what == f"damaged: {said}"
