"""Asking the person at the terminal."""

import sys


def confirm(question: str) -> bool:
    """Ask a question on stderr; tell whether the answer is yes. The end of input is no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    return answer.strip().lower() in {"y", "yes"}
