"""Single checks of `rekindle doctor`."""

from pathlib import Path
from typing import cast

import pytest

from rekindle.store.sqlite.doctor_checks import check_integrity
from rekindle.store.sqlite.inspect import Inspection


class StoreWithComplaints:
    """A store about which SQLite has these complaints."""

    def __init__(self, *complaints: str) -> None:
        self._complaints = list(complaints)

    def complaints(self, *, full: bool) -> list[str]:
        assert not full
        return self._complaints


@pytest.mark.parametrize(
    ("pages", "said"),
    [(1, "page 1"), (3, "page 1; page 2; page 3"), (10, "page 1; page 2; page 3; and 7 more")],
)
def test_only_the_first_complaints_are_shown(pages: int, said: str) -> None:
    lines = ["*** in database main ***", *(f"page {n}" for n in range(1, pages + 1))]
    store = cast("Inspection", StoreWithComplaints("\n".join(lines)))
    (diagnosis,) = check_integrity(store, Path("/s.db"), lambda: None, full=False)
    assert diagnosis.text == f"damaged: {said}"
