"""The user's configuration file: where it is, which keys it has, and their values."""
