"""An agent that writes the bytes of one file, and saves its input in another."""

import os
import sys

say, heard = sys.argv[1:]
with open(say, "rb") as source:  # noqa: PTH123 - starts faster without pathlib
    while data := source.read(65536):
        sys.stdout.buffer.write(data)
sys.stdout.buffer.flush()
with open(heard, "wb") as kept:  # noqa: PTH123 - as above
    while data := os.read(0, 65536):
        kept.write(data)
