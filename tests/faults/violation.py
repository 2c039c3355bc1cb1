"""The error that a failed check raises."""


class Violation(Exception):
    """A check has failed."""

    def __init__(self, promise: str, how: str) -> None:
        super().__init__(f"{promise}: {how}")
        self.promise = promise
