"""Plays a conversation through the relay, and writes down what the relay makes of it.

A script is what both sides say, and what came of it:

    -- a remark
    c> LINE         the client sends a line        a> LINE     the agent does
    c+ LINE         … in the same read as the line before      a+ LINE
    recorded ID     from here on the store has this session
    ended CODE|SIGNAL LAST WORDS     the agent ends

    ?  ID           the relay looks a session up
    #  …            what is recorded, and `# sync` where it must reach the disk
    <a LINE         what the agent gets            <c LINE     what the client gets
    !  …            what the user is told

Times are 1, 2, 3 … in the order of reads. A recorded line is written out only where it
is not the line that was received.
"""

from pathlib import Path

from rekindle.core.relay import AgentEnded, Relay
from rekindle.core.step import Step
from rekindle.model import Change, Deleted, Opened, Side, Stretch, Titled

SIDES = {"c": Side.CLIENT, "a": Side.AGENT}


class Playbook:
    """One conversation with one relay."""

    def __init__(self, *, is_strict: bool = False) -> None:
        self.relay = Relay(("agent", "acp"), is_strict=is_strict)
        self.now = 0
        self.recorded: set[str] = set()
        self.out: list[str] = []

    def play(self, script: str) -> str:
        """Return the script with the relay's part as it is now."""
        read: tuple[Side, list[str]] | None = None
        for line in [*script.splitlines(), ""]:
            mark, _, rest = line.partition(" ")
            if read and mark == ("c+" if read[0] is Side.CLIENT else "a+"):
                read[1].append(rest)
                self.out.append(line)
                continue
            if read:
                self.receive(*read)
                read = None
            if mark in {"c>", "a>"}:
                read = (SIDES[mark[0]], [rest])
                self.out.append(line)
            elif mark == "recorded":
                self.recorded.add(rest)
                self.out.append(line)
            elif mark == "ended":
                self.out.append(line)
                self.end(*rest.split(" ", 1))
            elif mark == "--" or not line:
                self.out.append(line)
        return "\n".join(self.out[:-1]) + "\n"

    def receive(self, side: Side, lines: list[str]) -> None:
        """Let the relay receive what one read brings."""
        self.now += 1
        received = [line.encode() for line in lines]
        step = self.relay.receive(side, b"\n".join(received), self.now)
        self.write_down(step, received)

    def end(self, how: str, last_words: str = "") -> None:
        """Let the agent end."""
        self.now += 1
        is_signal = how.startswith("SIG")
        ended = AgentEnded(
            exit_code=None if is_signal else int(how),
            signal=how if is_signal else None,
            last_words=tuple(last_words.split("|")) if last_words else (),
        )
        self.write_down(self.relay.agent_ended(ended, self.now), [])

    def write_down(self, step: Step, received: list[bytes]) -> None:
        """Write down a step, and answer its look-ups."""
        for session_id in step.look_up:
            self.out.append(f"?  {session_id}")
            self.relay.learn(session_id, is_recorded=session_id in self.recorded)
        self.out += [f"#  {words}" for change in step.changes for words in say(change, received)]
        if step.sync:
            self.out.append("#  sync")
        for mark, sent in (("<a", step.to_agent), ("<c", step.to_client)):
            self.out += [f"{mark} {line.decode()}" for lines in sent for line in lines.split(b"\n")]
        self.out += [f"!  {it.text}" + f": {it.quote}" * bool(it.quote) for it in step.complaints]


def say(change: Change, received: list[bytes]) -> list[str]:
    """Put a change into words."""
    match change:
        case Stretch():
            head = f"{change.session_id} {change.side} {change.kind}"
            head += f" v{change.protocol}" if change.protocol != 1 else ""
            return [
                head if line in received else f"{head} {line.decode()}" for line in change.lines
            ]
        case Opened():
            told = {
                "cwd": change.cwd,
                "directories": change.directories or None,
                "parent": change.parent_id,
                "agent": change.agent and change.agent.name,
                "version": change.agent and change.agent.version,
                "command": change.agent and " ".join(change.agent.command),
                "as": change.agent_session_id,
            }
            words = [f"{name}={value}" for name, value in told.items() if value is not None]
            return [" ".join([change.session_id, "opened", *words])]
        case Titled():
            return [f"{change.session_id} titled by {change.source}: {change.title}"]
        case Deleted():
            return [f"{change.session_id} deleted"]


def play_file(path: Path, *, update: bool) -> tuple[str, str]:
    """Return a script as it is, and as it plays now; with `update`, write it anew."""
    script = path.read_text(encoding="utf-8")
    played = Playbook(is_strict=path.stem.startswith("strict")).play(script)
    if update:
        path.write_text(played, encoding="utf-8")
        script = played
    return script, played
