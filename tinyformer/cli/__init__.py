"""The command line: train, generate, tokenize, info.

Whatever a user can do wrong ends in one message that says what to do, and an exit status: 2 for
words on the command line that make no sense, 1 for what failed later, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import Any, List, NoReturn, Optional, Sequence

from tinyformer.cli import generate, info, tokenize, train

COMMANDS = {"train": train, "generate": generate, "tokenize": tokenize, "info": info}
EXPECTED = (ValueError, TypeError, IndexError, OSError, ImportError, ArithmeticError, MemoryError)


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, which names the option that was probably meant."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **options})

    def options(self) -> List[str]:
        """All option names that this parser knows."""
        return [
            name for action in self._actions for name in action.option_strings
            if name.startswith("--")
        ]

    def error(self, message: str) -> NoReturn:
        """Exit with 2, the message, and how to see what is right."""
        self.exit(2, f"{self.prog}: {message}\nSee  {self.prog} --help\n")


def parser() -> Parser:
    """The parser of the whole command line, one sub-command per module."""
    whole = Parser(prog="tinyformer", description="A transformer from scratch in pure Python.")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").split("\n", 1)[0]
        command = commands.add_parser(name, help=summary, description=module.__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command)
    return whole


def main(words: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns the exit status."""
    whole = parser()
    arguments, unknown = whole.parse_known_args(words)
    if arguments.command is None:
        whole.print_help()
        return 0
    if unknown:
        arguments.parser.error(_not_understood(unknown[0], arguments.parser.options()))
    try:
        return int(arguments.run(arguments) or 0)
    except KeyboardInterrupt as stop:
        print(f"\n{stop or 'stopped; nothing was saved yet'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except EXPECTED as error:
        print(f"tinyformer {arguments.command}: {_plain(error)}", file=sys.stderr)
        return 1


def _not_understood(word: str, options: List[str]) -> str:
    """What is wrong with a word that no option takes."""
    close = difflib.get_close_matches(word.split("=", 1)[0], options, 1)
    return f"{word} is not understood" + (f"; did you mean {close[0]}?" if close else
                                          f"; the options are {', '.join(sorted(options))}")


def _plain(error: BaseException) -> str:
    """An error as one message; the system's own errors with the file that they are about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return ("not enough memory; choose smaller sizes (--d-model, --batch-size, --max-len, "
                "--vocab-size)")
    return str(error)
