"""The names of ACP's methods, and groups of them."""

INITIALIZE = "initialize"
NEW = "session/new"
LOAD = "session/load"
RESUME = "session/resume"
FORK = "session/fork"
LIST = "session/list"
CLOSE = "session/close"
DELETE = "session/delete"
ARCHIVE = "session/archive"
UNARCHIVE = "session/unarchive"
SET_TITLE = "session/set_title"
STATUS = "session/status"
REWIND = "session/rewind"
EDIT_PROMPT = "session/edit_prompt"
PROMPT = "session/prompt"
CANCEL = "session/cancel"
UPDATE = "session/update"
SET_MODE = "session/set_mode"
SET_MODEL = "session/set_model"
SET_CONFIG_OPTION = "session/set_config_option"
AUTHENTICATE = "authenticate"
LOGOUT = "logout"
AUTH_LOGIN = "auth/login"
AUTH_LOGOUT = "auth/logout"
CANCEL_REQUEST = "$/cancel_request"
REQUEST_PERMISSION = "session/request_permission"
ELICIT = "elicitation/create"
ASKS_USER = frozenset({REQUEST_PERMISSION, ELICIT})
"""The requests with which the agent waits for the user."""

SETS_CONFIG = frozenset({SET_MODE, SET_MODEL, SET_CONFIG_OPTION})

HOST_STATUS = "_rekindle/host/status"
HOST_RELEASE = "_rekindle/host/release"
HOST_METHODS = frozenset({HOST_STATUS, HOST_RELEASE})
"""Requests of one process of the user to another, which is the host of sessions."""

TERMINAL_OUTPUT = "terminal/output"

_GONE_IN_V2 = frozenset({LOAD, SET_MODE, SET_MODEL, AUTHENTICATE, LOGOUT})
_TERMINAL_CANCEL = "terminal/cancel"

INFO_METHODS = frozenset({ARCHIVE, UNARCHIVE, SET_TITLE, STATUS})
"""The methods that read or change the data about a session, and never open it."""

REWINDS = frozenset({REWIND, EDIT_PROMPT})
"""The methods that remove the end of a session's history."""

LIFECYCLE = frozenset({NEW, LOAD, RESUME, FORK, LIST, CLOSE, DELETE}) | INFO_METHODS | REWINDS

_PRIVATE = ("authenticate", "logout", "auth/", "_auth/", "fs/", "terminal/")


def is_gone_in_v2(method: str) -> bool:
    """Return whether version 1 has a method that version 2 does not have."""
    is_client_method = method.startswith(("fs/", "terminal/")) and method != _TERMINAL_CANCEL
    return method in _GONE_IN_V2 or is_client_method


def is_private(method: str) -> bool:
    """Return whether messages of a method are never recorded: credentials and files."""
    return method.startswith(_PRIVATE)
