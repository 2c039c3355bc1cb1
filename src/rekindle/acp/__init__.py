"""Bytes to messages and back. Knows JSON-RPC and ACP; has no policy and does no I/O."""
