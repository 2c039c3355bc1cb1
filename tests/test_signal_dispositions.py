import signal
import subprocess

import pytest

from signal_dispositions import default_in_children


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT"])
def test_a_signal_that_the_test_process_ignores_ends_its_children(name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with default_in_children():
            signal.raise_signal(number)
            done = subprocess.run(["/bin/sh", "-c", f"kill -{name} $$"], check=False)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert done.returncode == -number
