"""``relay-layout explain MODEL [NODE]``: what was chosen, what else there was, and what was in the way."""

from argparse import ArgumentParser, Namespace

from relay_layout.cli import options
from relay_layout.cli.output import Outcome
from relay_layout.errors import InputError
from relay_layout.report.files import is_report, read_report
from relay_layout.report.text import find, of_operator, of_report, target_words


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    help_text = f"{options.MODEL_HELP}; or a report that compile --report wrote (.html, .json)"
    parser.add_argument("model", metavar="MODEL", help=help_text)
    parser.add_argument(
        "node",
        nargs="?",
        metavar="NODE",
        help="one operator: a binding's name, a part of one that no other has, or an index of the table",
    )
    options.add(parser, options.TARGET, *options.CONVERSION)


def run(arguments: Namespace) -> Outcome:
    """Plans the conversion, or reads a report; tells all operators in a table, or one of them in full."""
    if is_report(arguments.model):
        return _of_report(arguments)
    keywords = options.ModelOptions.read(arguments).keywords()
    import relay_layout

    explanation = relay_layout.explain(arguments.model, arguments.node, **keywords)
    return Outcome(explanation.to_dict(), str(explanation))


def _of_report(arguments: Namespace) -> Outcome:
    """What the report holds, of the target that ``--target`` names or of all."""
    given = [each.name for each in options.CONVERSION if each.is_given(arguments)]
    if given:
        raise InputError(
            f"{arguments.model} tells what was compiled, which {given[0]} cannot change; explain the model"
        )
    report = read_report(arguments.model)
    known = [target["name"] for target in report["targets"]]
    targets = [target for target in report["targets"] if target["name"] == arguments.target]
    if not targets and arguments.target != "native":
        raise InputError(
            f"--target: the report has no target '{arguments.target}'; name one of {', '.join(known)}, or "
            "leave it out for all"
        )
    targets = targets or report["targets"]
    if arguments.node is None:
        return Outcome({**report, "targets": targets}, of_report(report, targets))
    found = [(target, find(target, arguments.node)) for target in targets]
    nodes = [{"target": target["name"], **node} for target, node in found]
    texts = [f"target {target_words(target)}\n{of_operator(target, node)}" for target, node in found]
    return Outcome({"operators": nodes}, "\n\n".join(texts))
