"""The program: `rekindle`, and `python -m rekindle`."""

import signal
import sys


def main() -> int:
    """Run one command. Ctrl-C ends it without a word, also while its modules are loaded."""
    # Whoever started us with it ignored (nohup) wants it so. The command heeds it once it runs.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rekindle.cli import main as run  # noqa: PLC0415 - only now it may be interrupted

    return run()


if __name__ == "__main__":
    sys.exit(main())
