"""``relay-layout fleet MODEL... --rpc-tracker HOST:PORT --board KEY=TARGET... -o FOLDER``."""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay_layout.cli import options
from relay_layout.cli.fleet_page import StatusPage
from relay_layout.cli.interrupts import INTERRUPTED, stop_requests
from relay_layout.cli.log import tell_problems
from relay_layout.cli.output import Outcome, one_line
from relay_layout.cli.search import SEARCH, tuning_job
from relay_layout.columns import columns
from relay_layout.errors import InputError, RelayLayoutError

if TYPE_CHECKING:
    from relay_layout.tuning.fleet.coordinator import FleetJob
    from relay_layout.tuning.fleet.status import FleetStatus, TargetStatus


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the verb's arguments."""
    options.add(parser, options.MODELS)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FOLDER",
        help="where the logs lie, TARGET.jsonl for each target; what they hold counts",
    )
    parser.add_argument(
        "--board",
        dest="boards",
        required=True,
        type=_board,
        action="append",
        metavar="KEY=TARGET",
        help="the key that boards have at the tracker, and the target to tune for on them; once for each",
    )
    options.add(
        parser,
        *options.CONVERSION,
        *SEARCH,
        *options.remote("the tracker whose boards measure, all at once", with_key=False),
    )


def run(arguments: Namespace) -> Outcome:
    """Tunes; exit status 130 where it was interrupted, 1 where a target failed and others did not."""
    jobs = _jobs(arguments, options.ModelOptions.read(arguments))
    from relay_layout.tuning.fleet.coordinator import run_fleet
    from topi_ext.tune.measuring.tracker import check_remote
    from topi_ext.tune.records.database import Database

    for job in jobs:
        job.job.resolved_target()
        check_remote(job.remote)
    tell_problems(Database.load(list(dict.fromkeys(log for job in jobs for log in job.job.logs())))[1])
    Path(arguments.output).mkdir(exist_ok=True)
    page = StatusPage()
    stopped: list[int] = []
    with stop_requests(page.tell, stopped):
        status = run_fleet(jobs, show=page.show, tell=page.tell, stop=lambda: bool(stopped))
    return _outcome(status, arguments.output)


def format_report(report: Mapping[str, Any]) -> str:
    """The report of a fleet for people."""
    rows = [["target", "key", "tasks", "measured", "failed", "gain", "ended", "log"]]
    for target in report["targets"]:
        if target["ended"] == "failed":
            numbers = ["-"] * 4
        else:
            numbers = [str(len(target["tasks"])), str(target["measured"]), str(target["failed"])]
            numbers.append(f"{target['gain']:.3f}")
        rows.append([target["target"], target["key"], *numbers, target["ended"], one_line(target["log"])])
    boards = [["board", "key", "measured", "failed", "lost"]]
    for board in report["boards"]:
        counts = [str(board[name]) for name in ("measured", "failed", "lost")]
        boards.append([board["place"], board["key"], *counts])
    return f"{columns(rows)}\n{columns(boards)}"


def _jobs(arguments: Namespace, asked: options.ModelOptions) -> "list[FleetJob]":
    from relay_layout.tuning.fleet.coordinator import FleetJob
    from topi_ext.tune.measuring.tracker import WAIT, RemoteDevice

    host, port = arguments.rpc_tracker
    folder = Path(arguments.output)
    options.check_folder("-o", arguments.output)
    seen: set[tuple[str, str]] = set()
    jobs = []
    for key, target in arguments.boards:
        if (key, target) in seen:
            raise InputError(f"--board {key}={target} is given twice")
        seen.add((key, target))
        log = folder / f"{_file_name(target)}.jsonl"
        if folder.exists():
            options.check_writable("-o", str(log), options.sources(arguments))
        job = tuning_job(arguments, asked, log, target)
        jobs.append(FleetJob(job, RemoteDevice(host, port, key, arguments.rpc_wait or WAIT)))
    return jobs


def _outcome(status: "FleetStatus", folder: str) -> Outcome:
    failed = [target for target in status.targets if target.ended == "failed"]
    if len(failed) == len(status.targets):
        raise _failure(failed)
    report = {
        "folder": folder,
        "tracker": status.tracker,
        "seconds": round(status.seconds, 1),
        "targets": [_target_report(target) for target in status.targets],
        "boards": [
            {
                "place": board.place,
                "key": board.key,
                "state": board.state,
                "measured": board.measured,
                "failed": board.failed,
                "lost": board.lost,
            }
            for board in status.boards.values()
        ],
    }
    exit_status = int(bool(failed))
    if any(target.ended == "interrupted" for target in status.targets):
        exit_status = INTERRUPTED
    return Outcome(report, format_report(report), exit_status)


def _target_report(target: "TargetStatus") -> dict[str, Any]:
    if target.report is None:
        return {
            "key": target.key,
            "target": target.target,
            "log": target.log,
            "ended": target.ended,
            "reason": target.reason,
        }
    return {"key": target.key, **target.report}


def _failure(failed: "Sequence[TargetStatus]") -> Exception:
    """Why nothing could be tuned, in one line."""
    reasons = dict.fromkeys(target.reason for target in failed)
    if any(target.internal for target in failed):
        return RuntimeError("; ".join(reasons))
    return RelayLayoutError("; ".join(reasons))


def _file_name(target: str) -> str:
    """The target's name, of which JSON keeps its words."""
    return re.sub(r"[^\w.+-]+", "_", target).strip("_")


def _board(text: str) -> tuple[str, str]:
    key, _, target = text.partition("=")
    if not key.strip() or not target.strip():
        raise ArgumentTypeError(f"expected KEY=TARGET, such as pi5=aarch64-cortex-a76, got '{text}'")
    return key.strip(), target.strip()
