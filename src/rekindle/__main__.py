"""The program: `rekindle`, and `python -m rekindle`."""

# Not `signal`: loading that takes several milliseconds, in which Ctrl-C would show a traceback.
# It has no types of its own: pyright knows nothing of it.
# pyright: reportMissingImports=false, reportUnknownMemberType=false
import _signal
import sys


def main() -> int:
    """Run one command. Ctrl-C ends it without a word, also while its modules are loaded."""
    # Whoever started us with it ignored (nohup) wants it so. The command heeds it once it runs.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from rekindle.cli.main import main as run  # noqa: PLC0415 - only now it may be interrupted

    return run()


if __name__ == "__main__":
    sys.exit(main())
