"""What the harness looks for, and hopes not to find."""


class Violation(Exception):
    """A promise was broken."""

    def __init__(self, promise: str, how: str) -> None:
        super().__init__(f"{promise}: {how}")
        self.promise = promise
