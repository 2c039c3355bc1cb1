"""Parse and write the messages of JSON-RPC and ACP. No policy, no I/O."""
