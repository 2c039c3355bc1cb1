"""The screen of the picker, driven by Textual's pilot."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from picker_store import read, write, write_three
from rekindle.cli.picker.app import PickerApp
from rekindle.cli.picker.screen import PickedSession, PickerSource
from rekindle.cli.store_access import address_for_reading, open_for_reading
from rekindle.cli.store_changes import now_us
from rekindle.model import Archived, LeaseHolder, Page, TitleSource
from rekindle.store.sqlite.store import SqliteStore
from stdio_client import TIMEOUT

SECRET = "sk-ant-api03-" + "a1B2" * 23 + "-abcdefAA"


class Driver:
    """Presses keys in the picker, and waits until it shows something. Every wait is bounded."""

    def __init__(self, pilot: Pilot[PickedSession]) -> None:
        self._pilot = pilot

    def press(self, *keys: str) -> None:
        """Press keys one after another, without waiting for their effects."""
        for key in keys:
            self._pilot.app.post_message(Key(key, key if len(key) == 1 else None))

    async def until(self, is_expected: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not is_expected():
            if time.monotonic() > deadline:
                raise AssertionError((self.rows, self.highlighted, self.status))
            await asyncio.sleep(0.005)

    async def until_rows(self, *ids: str) -> None:
        """Wait until these rows are shown."""
        await self.until(lambda: self.rows == list(ids))

    async def until_status(self, text: str) -> None:
        """Wait until the status line has a text."""
        await self.until(lambda: text in self.status)

    @property
    def picked(self) -> PickedSession | None:
        """The session that was picked, once the picker has ended."""
        return self._pilot.app.return_value

    @property
    def rows(self) -> list[str]:
        """The ids of the rows."""
        words = [str(option.prompt).split() for option in self._list.options]
        return [next(word for word in row if word.startswith("ses_")) for row in words]

    @property
    def first_line(self) -> str:
        """The text of the first row."""
        return str(self._list.options[0].prompt).rstrip()

    @property
    def highlighted(self) -> str | None:
        """The id of the highlighted row."""
        at = self._list.highlighted
        return None if at is None else self.rows[at]

    @property
    def status(self) -> str:
        return self._text("#status")

    @property
    def preview(self) -> str:
        return self._text("#end")

    @property
    def keys(self) -> str:
        return self._text("#keys")

    @property
    def dialog(self) -> str:
        """The text of the dialog over the list, if any."""
        if len(self._pilot.app.screen_stack) < 3:
            return ""
        texts = [str(it.content) for it in self._pilot.app.screen.query(Static)]
        return "\n".join([*texts, *(it.value for it in self._pilot.app.screen.query(Input))])

    @property
    def _list(self) -> OptionList:
        return self._pilot.app.screen_stack[1].query_one(OptionList)

    def _text(self, selector: str) -> str:
        return str(self._pilot.app.screen_stack[1].query_one(selector, Static).content)


Steps = Callable[[Driver], Awaitable[None]]


def drive(
    store: Path, steps: Steps, *, size: tuple[int, int] = (80, 24), redact: bool = True
) -> PickedSession | None:
    """Run the picker in a terminal of the driver, and return the picked session."""

    async def run() -> PickedSession | None:
        address = address_for_reading(str(store))
        with open_for_reading(str(store)) as opened:
            page = Page(prompted=True)
            app = PickerApp(PickerSource(str(store), address, opened, page, redact=redact))
            async with app.run_test(size=size) as pilot:
                driver = Driver(pilot)
                await driver.until(lambda: len(pilot.app.screen_stack) > 1 and bool(driver.rows))
                await steps(driver)
            if app.error is not None:
                raise app.error
            return app.return_value

    return asyncio.run(run())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store whose sessions are listed as roof, bike, milk."""
    return write_three(tmp_path / "s.db")


@pytest.mark.parametrize("redact", [True, False])
def test_secrets_are_masked_unless_configured_otherwise(store: Path, *, redact: bool) -> None:
    token = f"ghp_{'aB3dE5gH7jK9' * 3}"
    write(store, "ses_key", store.parent, f"Push {token}", f"Push it: {token} now.")
    shown = "ghp_***" if redact else token

    async def steps(it: Driver) -> None:
        await it.until(lambda: f"Push it: {shown} now." in it.preview)
        assert f"Push {shown}" in it.preview
        assert it.first_line.endswith(f"Push {shown}")
        it.press("ctrl+x")
        await it.until(lambda: f"Delete Push {shown}?" in it.dialog)
        it.press("n")
        await it.until(lambda: not it.dialog)
        it.press(*"push it")
        await it.until(lambda: f"Push it: {shown} now." in it.status)
        it.press("escape")

    drive(store, steps, size=(200, 30), redact=redact)


def test_cursor_stays_on_the_neighbour_after_an_archive(store: Path) -> None:
    async def steps(it: Driver) -> None:
        it.press("down", "ctrl+t")
        await it.until_status("archived: Mend the bike")
        await it.until_rows("ses_roof", "ses_milk")
        assert it.highlighted == "ses_milk"
        # The next action acts on the neighbour. It is the last row, so the cursor moves up.
        it.press("ctrl+x")
        await it.until(lambda: "Delete Buy oat milk?" in it.dialog)
        it.press("y")
        await it.until_status("deleted: Buy oat milk")
        await it.until_rows("ses_roof")
        assert it.highlighted == "ses_roof"

    drive(store, steps)
    assert read(store, "ses_roof").deleted_us is None


def test_keys_pressed_at_once_act_on_one_session_after_another(store: Path) -> None:
    async def steps(it: Driver) -> None:
        it.press("ctrl+t", "ctrl+t", "ctrl+t", "ctrl+z")
        await it.until_status("undid archive: Buy oat milk")
        await it.until_rows("ses_milk")

    drive(store, steps)
    assert read(store, "ses_roof").archived_us is not None
    assert read(store, "ses_bike").archived_us is not None


def test_cursor_stays_on_a_match_by_text(store: Path, tmp_path: Path) -> None:
    write(store, "ses_wet", tmp_path, "Zebra", "Nothing.")
    write(store, "ses_dry", tmp_path, "Dry", "No zebra is here, said the zebra.")

    async def steps(it: Driver) -> None:
        it.press(*"zebra")
        await it.until(lambda: sorted(it.rows) == ["ses_bike", "ses_dry", "ses_wet"])
        assert it.rows[0] == "ses_wet"
        it.press("down")
        removed, kept = it.rows[1:]
        it.press("ctrl+t")
        await it.until_rows("ses_wet", kept)
        assert it.highlighted == kept
        await it.until_status("archived: ")
        it.press("ctrl+z")
        await it.until(lambda: len(it.rows) == 3)
        assert it.highlighted == removed

    drive(store, steps)


def test_undo_has_several_levels_and_reports_each(store: Path) -> None:
    async def steps(it: Driver) -> None:
        assert "undo" not in it.keys
        it.press("ctrl+t")
        await it.until_rows("ses_bike", "ses_milk")
        it.press("ctrl+x")
        await it.until(lambda: "Delete Mend the bike?" in it.dialog)
        it.press("y")
        await it.until_rows("ses_milk")
        it.press("ctrl+r")
        await it.until(lambda: "Buy oat milk" in it.dialog)
        it.press("ctrl+u", *"Tea", "enter")
        await it.until_status("renamed: Tea")
        assert "^z undo" in it.keys
        it.press("ctrl+z")
        await it.until_status("undid rename: Buy oat milk")
        it.press("ctrl+z")
        await it.until_status("undid delete: Mend the bike")
        await it.until_rows("ses_bike", "ses_milk")
        assert it.highlighted == "ses_bike"
        it.press("ctrl+z")
        await it.until_status("undid archive: Look at the roof")
        await it.until_rows("ses_roof", "ses_bike", "ses_milk")
        assert it.highlighted == "ses_roof"
        assert "undo" not in it.keys
        it.press("ctrl+z")
        await it.until_status("nothing to undo")

    drive(store, steps)
    milk = read(store, "ses_milk")
    assert (milk.title, milk.title_source) == ("Buy oat milk", TitleSource.AGENT)
    assert read(store, "ses_bike").deleted_us is None
    assert read(store, "ses_roof").archived_us is None


def test_undo_of_a_rename_restores_the_former_title_of_the_user(store: Path) -> None:
    async def steps(it: Driver) -> None:
        for title in ("One", "Two"):
            it.press("ctrl+r")
            await it.until(lambda: "New title" in it.dialog)
            it.press("ctrl+u", *title, "enter")
            await it.until_status(f"renamed: {title}")
        it.press("ctrl+z")
        await it.until_status("undid rename: One")

    drive(store, steps)
    assert read(store, "ses_roof").title == "One"


def test_unchanged_title_is_not_written(store: Path) -> None:
    async def steps(it: Driver) -> None:
        it.press("ctrl+r")
        await it.until(lambda: "Look at the roof" in it.dialog)
        it.press("enter")
        await it.until(lambda: not it.dialog)

    drive(store, steps)
    assert read(store, "ses_roof").title_source is TitleSource.AGENT


def test_undo_of_a_purged_session_is_refused(store: Path) -> None:
    async def steps(it: Driver) -> None:
        it.press("ctrl+x")
        await it.until(lambda: "Delete Look at the roof?" in it.dialog)
        it.press("y")
        await it.until_status("deleted: Look at the roof")
        with SqliteStore(store) as opened:
            opened.purge("ses_roof")
        it.press("ctrl+z")
        await it.until_status("ses_roof was purged")
        await it.until_rows("ses_bike", "ses_milk")

    drive(store, steps)


def test_row_comes_back_if_the_action_fails(store: Path) -> None:
    async def steps(it: Driver) -> None:
        with SqliteStore(store) as opened:
            holder = LeaseHolder(token="t", pid=1, machine="other")  # noqa: S106 - no secret
            assert opened.acquire_lease("ses_roof", holder) is not None
            it.press("ctrl+x")
            await it.until(lambda: "Delete Look at the roof?" in it.dialog)
            it.press("y")
            await it.until_status("ses_roof")
            await it.until_rows("ses_roof", "ses_bike", "ses_milk")
            assert it.highlighted == "ses_roof"
            assert "undo" not in it.keys

    drive(store, steps)
    assert read(store, "ses_roof").deleted_us is None


def test_archived_sessions_can_be_viewed_and_unarchived(store: Path) -> None:
    with SqliteStore(store) as opened:
        opened.write([Archived(session_id="ses_bike", at_us=now_us())], sync=True)
    archived_us = read(store, "ses_bike").archived_us

    async def steps(it: Driver) -> None:
        await it.until_rows("ses_roof", "ses_milk")
        assert "tab archived" in it.keys
        it.press("tab")
        await it.until_rows("ses_bike")
        await it.until_status("1 archived session")
        assert "^t unarchive" in it.keys
        it.press("ctrl+t")
        await it.until_status("unarchived: Mend the bike")
        await it.until(lambda: it.preview == "No session is archived.")
        it.press("ctrl+z")
        await it.until_status("undid unarchive: Mend the bike")
        await it.until_rows("ses_bike")
        assert read(store, "ses_bike").archived_us == archived_us
        it.press("ctrl+t", "tab")
        await it.until_rows("ses_roof", "ses_bike", "ses_milk")

    drive(store, steps)
    assert read(store, "ses_bike").archived_us is None


def test_search_without_a_match_names_the_other_list(store: Path) -> None:
    async def steps(it: Driver) -> None:
        it.press(*"qqq")
        await it.until(lambda: it.preview.startswith("No session matches."))
        assert "Tab searches the archived sessions." in it.preview

    drive(store, steps)


def test_typed_letters_select_the_best_match(store: Path) -> None:
    async def steps(it: Driver) -> None:
        it.press(*"mndbk", "enter")
        await it.until(lambda: it.picked is not None)

    assert drive(store, steps) == PickedSession("resume", "ses_bike")


def test_moving_the_cursor_removes_the_outcome_of_the_last_action(store: Path) -> None:
    async def steps(it: Driver) -> None:
        it.press("ctrl+t")
        await it.until_status("archived: Look at the roof")
        it.press("down")
        await it.until_status("2 sessions")

    drive(store, steps)


def test_preview_masks_secrets(store: Path, tmp_path: Path) -> None:
    write(store, "ses_key", tmp_path, "Rotate the key", f"My key is {SECRET}.")

    async def steps(it: Driver) -> None:
        await it.until(lambda: "My key is" in it.preview)
        assert "sk-***" in it.preview
        assert SECRET not in it.preview

    drive(store, steps)


def test_long_text_is_cut_in_the_preview(store: Path, tmp_path: Path) -> None:
    write(store, "ses_long", tmp_path, "Long", "word " * 3000)

    async def steps(it: Driver) -> None:
        await it.until(lambda: "word" in it.preview)
        assert it.preview.rstrip().endswith("…")
        assert it.preview.count("word") < 1000

    drive(store, steps)
