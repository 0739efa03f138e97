"""``relay-layout diff A B``: what changed from one report to another."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from relay_layout.cli.output import Outcome
from relay_layout.report.difference import difference, pairs, text_of
from relay_layout.report.files import read_report


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("before", metavar="A", help="a report of relay-layout compile, .html or .json")
    parser.add_argument("after", metavar="B", help="another, or the same with --targets")
    parser.add_argument(
        "--targets",
        type=_two,
        default=(),
        metavar="A,B",
        help="the targets to compare, one of each report; otherwise those that both have",
    )


def run(arguments: Namespace) -> Outcome:
    """Compares the reports, target by target."""
    before, after = read_report(arguments.before), read_report(arguments.after)
    found = [difference(*pair) for pair in pairs(before, after, arguments.targets)]
    return Outcome({"differences": found}, "\n\n".join(map(text_of, found)))


def _two(text: str) -> tuple[str, str]:
    first, _, second = (part.strip() for part in text.partition(","))
    if not first or not second or "," in second:
        raise ArgumentTypeError(f"expected two names with a comma between them, got '{text}'")
    return first, second
