"""End the use of a session by another process, and cancel its turn.

The record stays, and the session can be continued anywhere. The clients that
have the session open are informed with their next prompt.

example:
  rekindle stop @1
"""

import argparse

from rekindle.acp import methods
from rekindle.cli.formatting import one_line, title_label
from rekindle.cli.messages import print_note
from rekindle.cli.session_choice import find_session
from rekindle.cli.store_access import add_session, add_store_option, open_for_reading
from rekindle.errors import HostError
from rekindle.runtime.host_requests import RELEASE_TIMEOUT, STATUS_TIMEOUT, ask_host


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_store_option(parser)
    add_session(parser)


def main(arguments: argparse.Namespace) -> int:
    """Ask the host of a session to release it."""
    with open_for_reading(arguments.store) as store:
        session = find_session(store, arguments.session)
        holder = store.lease_holder(session.id)
    own_id = one_line(session.id)
    if holder is None:
        print_note(f"no process uses session {own_id}")
        return 0
    try:
        ask_host(holder.socket, methods.HOST_STATUS, {}, STATUS_TIMEOUT)
        params = {"sessionId": session.id}
        ask_host(holder.socket, methods.HOST_RELEASE, params, RELEASE_TIMEOUT)
    except (OSError, HostError) as error:
        raise HostError(
            f"process {holder.pid} on {holder.machine} does not release session {own_id}: {error};"
            f" `rekindle resume --takeover {own_id}` continues it anyway"
        ) from error
    print(f"{own_id}: stopped {title_label(session)} in process {holder.pid}")
    return 0
