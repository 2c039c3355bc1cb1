"""Mask secrets in everything that is printed, also in text that arrives in chunks."""

from msgspec.structs import replace

from rekindle.cli.render.printer import Printer
from rekindle.cli.render.transcript import Piece
from rekindle.text.redact.detect import mask
from rekindle.text.redact.stream import StreamMask


class MaskingPrinter:
    """Prints with another printer, and masks secrets."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._stream = StreamMask()
        self.can_replace = printer.can_replace

    def show(self, piece: Piece, *, replacing: bool = False) -> None:
        """Print a piece."""
        self._printer.show(replace(piece, text=mask(piece.text)), replacing=replacing)

    def begin(self, kind: str, mark: str) -> None:
        """Begin a text."""
        self._printer.begin(kind, mark)

    def add(self, text: str) -> None:
        """Print a chunk, except for its end if that may be a part of a secret."""
        if certain := self._stream.feed(text):
            self._printer.add(certain)

    def release(self) -> None:
        """Print the text that is held back: the agent has paused."""
        if held := self._stream.release():
            self._printer.add(held)

    def finish(self) -> None:
        """Print the rest of the text, and end it."""
        if rest := self._stream.finish():
            self._printer.add(rest)
        self._printer.finish()
