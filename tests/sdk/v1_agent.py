"""An agent written with the official Python SDK: `v1_agent.py VERDICTS [MEMORY OFFER,…]`.

It offers the given lifecycle methods, and saves sessions in MEMORY; without it, none.
The result of each validated message goes to VERDICTS: `[method, what is wrong or null]`.
The SDK has version 1 alone, and lets no agent offer `session/delete`.
"""

import asyncio
import json
import sys
from pathlib import Path

import acp
from acp import schema
from pydantic import BaseModel

from actions import Turn, play
from conversations import Conversation, Conversations
from message_validator import ExpectedModels, Validator

EXPECTED = ExpectedModels(
    requests={
        "initialize": schema.InitializeRequest,
        "session/new": schema.NewSessionRequest,
        "session/load": schema.LoadSessionRequest,
        "session/list": schema.ListSessionsRequest,
        "session/resume": schema.ResumeSessionRequest,
        "session/fork": schema.ForkSessionRequest,
        "session/close": schema.CloseSessionRequest,
        "session/set_mode": schema.SetSessionModeRequest,
        "session/prompt": schema.PromptRequest,
    },
    notifications={"session/cancel": schema.CancelNotification},
    results={"session/request_permission": schema.RequestPermissionResponse},
)
MODES = [schema.SessionMode(id=name, name=name) for name in ("ask", "code")]


class Agent:
    """The methods that the SDK calls."""

    def __init__(self, memory: Path | None, offers: list[str]) -> None:
        self._conversations = Conversations(memory)
        self._offers = offers
        self._turns: dict[str, Turn] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, **_: object) -> acp.InitializeResponse:
        own = {name: {} for name in self._offers if name != "load"}
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="sdk-agent", version="1"),
            agent_capabilities=schema.AgentCapabilities(
                load_session="load" in self._offers,
                session_capabilities=schema.SessionCapabilities.model_validate(own),
            ),
        )

    async def new_session(self, cwd: str, **_: object) -> acp.NewSessionResponse:
        kept = self._conversations.begin(Conversation(cwd))
        return acp.NewSessionResponse(session_id=kept.session_id, modes=modes(kept))

    async def set_session_mode(self, session_id: str, mode_id: str, **_: object) -> None:
        kept = found(self._conversations.opened(session_id))
        kept.mode = mode_id
        self._conversations.keep(kept)

    async def prompt(
        self, session_id: str, prompt: list[schema.TextContentBlock], **_: object
    ) -> acp.PromptResponse:
        kept = found(self._conversations.opened(session_id))
        kept.prompts.append([block.text for block in prompt])
        for block in prompt:
            self._remember(kept, acp.update_user_message(block))
        turn = self._turns[session_id] = self._turn(kept)
        return acp.PromptResponse(stop_reason=await play(turn))

    async def cancel(self, session_id: str, **_: object) -> None:
        if turn := self._turns.get(session_id):
            turn.cancelled.set()

    # -- optional methods --

    async def load_session(self, session_id: str, **_: object) -> acp.LoadSessionResponse:
        kept = found(self._conversations.reopen(session_id))
        for update in kept.updates:
            await self._client.session_update(session_id, update)
        return acp.LoadSessionResponse(modes=modes(kept))

    async def resume_session(self, session_id: str, **_: object) -> schema.ResumeSessionResponse:
        return schema.ResumeSessionResponse(
            modes=modes(found(self._conversations.reopen(session_id)))
        )

    async def list_sessions(
        self, cwd: str | None = None, **_: object
    ) -> schema.ListSessionsResponse:
        kept = self._conversations.listed(cwd)
        sessions = [schema.SessionInfo(session_id=it.session_id, cwd=it.cwd) for it in kept]
        return schema.ListSessionsResponse(sessions=sessions)

    async def fork_session(
        self, session_id: str, cwd: str, **_: object
    ) -> schema.ForkSessionResponse:
        kept = self._conversations.fork(found(self._conversations.reopen(session_id)), cwd)
        return schema.ForkSessionResponse(session_id=kept.session_id, modes=modes(kept))

    async def close_session(self, session_id: str, **_: object) -> None:
        self._conversations.close(session_id)

    # -- turns --

    def _turn(self, kept: Conversation) -> Turn:
        async def tell(update: BaseModel) -> None:
            self._remember(kept, update)
            await self._client.session_update(kept.session_id, update)

        async def ask(
            call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
        ) -> str | None:
            answer = await self._client.request_permission(kept.session_id, call, options)
            return getattr(answer.outcome, "option_id", None)

        return Turn(kept.prompts, tell, ask)

    def _remember(self, kept: Conversation, update: BaseModel) -> None:
        kept.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
        self._conversations.keep(kept)


def found(kept: Conversation | None) -> Conversation:
    if kept is None:
        raise acp.RequestError.resource_not_found()
    return kept


def modes(kept: Conversation) -> schema.SessionModeState:
    return schema.SessionModeState(current_mode_id=kept.mode, available_modes=MODES)


def main(verdicts: str, memory: str | None = None, offers: str = "") -> None:
    def write(method: str | None, wrong: str | None) -> None:
        with Path(verdicts).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps([method, wrong])}\n")

    agent = Agent(Path(memory) if memory else None, [it for it in offers.split(",") if it])
    validator = Validator(EXPECTED, write)
    asyncio.run(acp.run_agent(agent, use_unstable_protocol=True, observers=[validator]))


main(*sys.argv[1:])
