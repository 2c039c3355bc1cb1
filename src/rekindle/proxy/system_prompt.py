"""`systemPrompt`: the client's instructions for a session.

The client may send them when it creates, loads, resumes or forks a session, if the agent supports
them. An agent that cannot apply them must return an error, so the engine refuses instructions that
the agent does not announce. They would otherwise be ignored.

The record keeps them, with masked secrets. If the client omits them later, the engine applies them
again. It prefers the text that the client sent in this process to the text of the record. A masked
text is worse than the agent's own copy, so it is sent to a new session of the agent only.
"""

from rekindle.acp.jsonrpc import INVALID_PARAMS
from rekindle.jsonvalue import Json, as_array, as_object, as_str, without
from rekindle.proxy.connection_state import ConnectionState
from rekindle.proxy.flow import Refusal
from rekindle.proxy.live_session import LiveSession
from rekindle.proxy.validation import invalid
from rekindle.text.redact.recorded_command import MASK

SYSTEM_PROMPT = "systemPrompt"
"""The field of a request that opens a session."""

_NOT_APPLIED = (
    "the agent does not support the system prompt of this session; the session continues without it"
)


# -- the client's request ---------------------------------------------------------------------


def check_system_prompt(conn: ConnectionState, method: str, setup: Json) -> None:
    """Check that the agent can apply the client's instructions. Raises Refusal."""
    given = setup.get(SYSTEM_PROMPT)
    if given is None:
        return
    if not conn.agent.capabilities.system_prompt_modes:
        raise Refusal(
            INVALID_PARAMS,
            f"{method}: this agent does not support {SYSTEM_PROMPT}; omit it",
            {"field": SYSTEM_PROMPT},
        )
    prompt = as_object(given)
    mode = prompt.get("mode")
    if as_str(mode) is None:
        raise invalid(method, f"{SYSTEM_PROMPT}.mode", mode, "must be a string")
    if not _is_supported(conn, prompt):
        raise invalid(method, f"{SYSTEM_PROMPT}.mode", mode, "is not supported by this agent")
    blocks = [as_object(block) for block in as_array(prompt.get("content"))]
    if not blocks or not all(map(_is_text, blocks)):
        kinds = [block.get("type") for block in blocks]
        raise invalid(
            method, f"{SYSTEM_PROMPT}.content", kinds, "must be a non-empty array of text blocks"
        )


def reused_setup(live: LiveSession, setup: Json) -> Json:
    """Return the setup of a session that is live already. Raises Refusal.

    The agent has the session with its instructions, and is not asked to open it again.
    """
    present, given = live.setup.params.get(SYSTEM_PROMPT), setup.get(SYSTEM_PROMPT)
    if given is None:
        return setup if present is None else {**setup, SYSTEM_PROMPT: present}
    if given != present:
        raise Refusal(
            INVALID_PARAMS,
            "the agent has this session open with another system prompt; close the session first, "
            "or fork it",
            {"field": SYSTEM_PROMPT, "sessionId": live.id},
        )
    return setup


# -- the record -------------------------------------------------------------------------------


def recorded_prompt(prompt: Json) -> Json:
    """Return instructions as they are recorded: mode and texts, without secrets."""
    from rekindle.text.redact.detect import mask  # noqa: PLC0415 - seldom needed, and slow

    texts = [as_str(as_object(block).get("text")) for block in as_array(prompt.get("content"))]
    content = [{"type": "text", "text": mask(text)} for text in texts if text is not None]
    return {"mode": prompt.get("mode"), "content": content}


class PromptSource:
    """The instructions of a session that the client opens without naming them."""

    def __init__(self, conn: ConnectionState, earlier: Json, recorded: Json | None) -> None:
        """`earlier` is the setup with which the client opened the session before, if it did."""
        self._conn = conn
        self._sent: Json | None = earlier.get(SYSTEM_PROMPT)
        self._recorded = recorded

    def native_setup(self, setup: Json) -> Json:
        """Return the setup for a session that the agent itself restores or forks."""
        is_given = setup.get(SYSTEM_PROMPT) is not None
        prompt = self._prompt(setup)
        is_masked = prompt == self._recorded and MASK in str(prompt)
        return setup if is_masked and not is_given else self.new_setup(setup)

    def new_setup(self, setup: Json) -> Json:
        """Return the setup for a new session of the agent."""
        prompt = self._prompt(setup)
        if prompt is None:
            return setup
        rest = without(setup, SYSTEM_PROMPT)
        return {**rest, SYSTEM_PROMPT: prompt} if _is_supported(self._conn, prompt) else rest

    def problem(self, setup: Json) -> str | None:
        """Return a text for the user if a new session of the agent lacks the instructions."""
        prompt = self._prompt(setup)
        is_lost = prompt is not None and not _is_supported(self._conn, prompt)
        return _NOT_APPLIED if is_lost else None

    def _prompt(self, setup: Json) -> Json | None:
        return setup.get(SYSTEM_PROMPT) or self._sent or self._recorded


def _is_supported(conn: ConnectionState, prompt: Json) -> bool:
    return prompt.get("mode") in conn.agent.capabilities.system_prompt_modes


def _is_text(block: Json) -> bool:
    return block.get("type") == "text" and as_str(block.get("text")) is not None
