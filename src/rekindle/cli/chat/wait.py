"""Wait for the end of the turn of a session, which another process runs, and print the answer.

The turn is read from the store, so no agent is started, and the session is not occupied.
"""

import argparse
import sys
from collections.abc import Callable

from rekindle.cli.chat.one_prompt import exit_code_of
from rekindle.cli.follow import Follower, poll_entries
from rekindle.cli.formatting import one_line, print_json, printable
from rekindle.cli.messages import print_note
from rekindle.cli.render.detail import FOLDED
from rekindle.cli.render.live import LiveRenderer
from rekindle.cli.render.permission import permission_title
from rekindle.cli.render.printer import printer_for
from rekindle.cli.render.transcript import turn_pieces
from rekindle.cli.store_access import statuses_of
from rekindle.cli.terminal import is_terminal
from rekindle.errors import ClientError, StoreError
from rekindle.export.json import describe_turn
from rekindle.jsonvalue import as_object, as_str, decode_object
from rekindle.model import Entry, Kind, Session, SessionStatus
from rekindle.store.base import Store
from rekindle.transcript.model import Role, TranscriptTurn
from rekindle.transcript.reducer import Transcript


def wait_for_end(arguments: argparse.Namespace, store: Store, session: Session) -> int:
    """Wait until the last turn has ended, and print its answer; return the exit code.

    On a terminal the turn is shown as it happens. Raises StoreError if there is no turn, and
    ClientError if it failed, or if its process has ended in the middle of it.
    """
    wait = _Wait(store, session)
    turn = wait.transcript.turns[-1] if wait.transcript.turns else None
    if turn is None:
        raise StoreError(f"session {one_line(session.id)} has no turn to wait for")
    is_shown = is_terminal() and not arguments.json
    turn = wait.run(_printing(wait.transcript) if is_shown else wait.transcript.add)
    if arguments.json:
        print_json({"sessionId": session.id, **describe_turn(turn)})
    elif not is_shown:
        _print_answer(turn)
    if turn.error is not None:
        reason = as_str(turn.error.get("message")) or "no reason given"
        raise ClientError(f"the prompt failed: {one_line(reason)}")
    return exit_code_of(turn.stop_reason)


class _Wait:
    """The wait for the end of the last turn of a session."""

    def __init__(self, store: Store, session: Session) -> None:
        self.transcript = Transcript()
        self._store = store
        self._session = session
        self._was_left = False
        """Whether no process has the session any more."""
        self._question: Entry | None = None
        """The permission request that waits for an answer."""
        for entry in store.read(session.id):
            self.transcript.add(entry)
            self._note_question(entry)

    def run(self, add: Callable[[Entry], object]) -> TranscriptTurn:
        """Pass each new entry to `add` until the turn has ended; return the turn."""
        self._report_question()
        after = self.transcript.last_seq
        for entry in poll_entries(
            self._store, self._session.id, after, lambda: None, goes_on=self._goes_on
        ):
            add(entry)
            self._note_question(entry)
            self._report_question()
        if not self._is_over:
            raise ClientError(
                "the process that ran the turn has ended in the middle of it;"
                f" `rekindle resume {one_line(self._session.id)}` continues the session"
            )
        return self.transcript.turns[-1]

    @property
    def _is_over(self) -> bool:
        return self.transcript.turns[-1].ended_us is not None

    def _goes_on(self) -> bool:
        if self._is_over or self._was_left:
            return False
        status = statuses_of(self._store, [self._session])[self._session.id]
        # The last entries may have come before the process left, so they are read once more.
        self._was_left = status is not SessionStatus.LIVE
        return True

    def _note_question(self, entry: Entry) -> None:
        if entry.kind is Kind.PERMISSION:
            self._question = entry
        elif entry.kind in {Kind.OUTCOME, Kind.ANSWER}:
            self._question = None

    def _report_question(self) -> None:
        entry, self._question = self._question, None
        if entry is None:
            return
        params = as_object(as_object(decode_object(entry.line)).get("params"))
        call = as_object(params.get("toolCall"))
        about = permission_title(
            as_str(params.get("title")) or as_str(call.get("title")) or "", None
        )
        remedy = f"`rekindle attach {one_line(self._session.id)}` answers"
        print_note(f"the agent asks for permission: {one_line(about)}; {remedy}")


def _printing(transcript: Transcript) -> Callable[[Entry], object]:
    """Show the last turn on the terminal; return a function that shows a new entry."""
    live = LiveRenderer(printer_for(), FOLDED, lambda: transcript.terminals)
    turn = transcript.turns[-1]
    if turn.ended_us is None:
        live.begin_turn(turn)
    else:
        for piece in turn_pieces(turn, FOLDED, transcript.terminals):
            live.show(piece)
    return Follower(transcript, live).add


def _print_answer(turn: TranscriptTurn) -> None:
    """Print the text of the agent's messages, as `rekindle prompt` does."""
    texts = [printable(it.text) for it in turn.messages if it.role is Role.AGENT and it.text]
    if texts:
        sys.stdout.write("\n\n".join(texts) + "\n")
        sys.stdout.flush()
