"""``relay-layout explain MODEL [NODE]``: what was chosen, what else there was, and what was in the way."""

from argparse import ArgumentParser, Namespace

from relay_layout.cli import options
from relay_layout.cli.output import Outcome


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "node",
        nargs="?",
        metavar="NODE",
        help="one operator: a binding's name, a part of one that no other has, or an index of the table",
    )
    options.add_layout_options(parser)


def run(arguments: Namespace) -> Outcome:
    """Plans the conversion; tells all operators in a table, or one of them in full."""
    keywords = options.layout_options(arguments)
    import relay_layout

    explanation = relay_layout.explain(arguments.model, arguments.node, **keywords)
    return Outcome(explanation.to_dict(), str(explanation))
