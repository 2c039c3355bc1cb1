"""Where sessions and entries live."""
