"""``relay-layout convert MODEL``: the conversion alone."""

from argparse import ArgumentParser, Namespace

from relay_layout.cli import options
from relay_layout.cli.layout_report import layout_rows
from relay_layout.cli.output import Outcome, note
from relay_layout.columns import columns


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    options.add(parser, options.MODEL, options.TARGET, *options.CONVERSION)
    parser.add_argument("--print", action="store_true", help="print the converted module")


def run(arguments: Namespace) -> Outcome:
    """Converts the model; prints the module or what the conversion left."""
    keywords = options.ModelOptions.read(arguments).keywords()
    import relay_layout

    conversion = relay_layout.convert(arguments.model, **keywords)
    report = conversion.report
    summary = columns(
        [
            *layout_rows(report),
            ["layout transforms", f"{report['layout_transforms']} on activations and anything computed"],
            ["on weights", f"{report['layout_transforms_weights']} on parameters and constants"],
            ["verified", "yes" if report["verified"] else "no"],
        ]
    )
    if not arguments.print:
        return Outcome(report, summary)
    note(summary)
    return Outcome(report, conversion.module.script())
