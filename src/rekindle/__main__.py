"""The entry point of `rekindle` and `python -m rekindle`."""

# Importing `signal` takes several milliseconds, in which Ctrl-C would print a traceback.
# `_signal` has no type stubs.
# pyright: reportMissingImports=false, reportUnknownMemberType=false
import _signal
import sys


def main() -> int:
    """Run one command. Ctrl-C ends the process silently, also while it imports modules."""
    # An ignored SIGINT (nohup) stays ignored. `rekindle.cli.main` restores KeyboardInterrupt.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from rekindle.cli.main import main as run  # noqa: PLC0415 - after SIGINT is set

    return run()


if __name__ == "__main__":
    sys.exit(main())
