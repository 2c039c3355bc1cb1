"""The flow that answers each request of the session lifecycle."""
