"""Print what makes a shell complete commands, options, agents, and sessions by id or by title.

Put it where your shell looks for completions, or have it read at each start:
  bash  eval "$(rekindle completion bash)"       in ~/.bashrc
  zsh   eval "$(rekindle completion zsh)"        in ~/.zshrc, after compinit
  fish  rekindle completion fish | source        in ~/.config/fish/config.fish

example:
  rekindle completion bash > ~/.local/share/bash-completion/completions/rekindle
"""

import argparse
from pathlib import Path

_SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "shell", choices=_SHELLS, metavar="SHELL", help=f"one of {', '.join(_SHELLS)}"
    )


def main(arguments: argparse.Namespace) -> int:
    """Print the script."""
    script = Path(__file__).parents[1] / "shells" / f"rekindle.{arguments.shell}"
    print(script.read_text(encoding="utf-8"), end="")
    return 0
