"""docs/cli.md, from the commands themselves: `python -m offmap.clidocs > docs/cli.md`."""

from collections.abc import Iterator
from typing import Any

import typer

from offmap.cli import app

INTRODUCTION = """# The command line

This page is written by `python -m offmap.clidocs`, from the commands themselves.

Exit codes: 0 done; 2 the input is wrong, with one line that says what, where, and what to do; 130 on Ctrl-C. Outputs
appear complete or not at all.
"""


def cli_page() -> str:
    """Every command with its arguments and options, as Markdown."""
    return "\n".join([INTRODUCTION, *_sections("offmap", typer.main.get_command(app))])


def _sections(name: str, command: Any) -> Iterator[str]:
    """A section for the command, or for each of those in a group."""
    for child, inner in getattr(command, "commands", {}).items():
        yield from _sections(f"{name} {child}", inner)
    if hasattr(command, "commands"):
        return
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    usage = " ".join([name, *(_label(parameter) for parameter in shown if parameter.required)])
    usage += "".join(f" [{_label(each)}]" for each in shown if not each.required and not _is_option(each))
    usage += " [OPTIONS]" * any(_is_option(parameter) and not parameter.required for parameter in shown)
    yield f"## {name}\n\n{command.help}\n\n```\n{usage}\n```\n"
    if shown:
        yield "| | default | |\n|---|---|---|"
        yield from map(_row, shown)
        yield ""


def _is_option(parameter: Any) -> bool:
    return parameter.opts[0].startswith("-")


def _label(parameter: Any) -> str:
    """How the parameter is written: its name in capitals after the option that takes it, if it is no argument."""
    value = "" if getattr(parameter, "is_flag", False) else parameter.name.upper().replace("_", "-")
    return f"{parameter.opts[0]} {value}".strip() if _is_option(parameter) else value


def _row(parameter: Any) -> str:
    is_flag = getattr(parameter, "is_flag", False)
    default = "" if is_flag or parameter.default in (None, "") or parameter.required else f"`{parameter.default}`"
    return f"| `{_label(parameter)}` | {default} | {parameter.help} |"


if __name__ == "__main__":
    print(cli_page(), end="")
