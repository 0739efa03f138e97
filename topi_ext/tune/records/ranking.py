"""Which of several records of one workload to trust."""

from collections.abc import Iterable, Sequence

from topi_ext.tune.records.record import ORIGINS, Record, TransformRecord, TuningRecord, knobs_key

CONFIRMED = 6
"""Repeats from which on a time counts as confirmed: a candidate has fewer, the few best are run again."""

UNCONFIRMED_PENALTY = 1.05
"""A time that was taken once must be better by this factor, so that luck on a noisy machine wins nothing."""


def ranking_seconds(record: TuningRecord) -> float:
    """The cost by which records compare, in seconds: short measurements count a little longer."""
    doubt = UNCONFIRMED_PENALTY if len(record.seconds) < CONFIRMED else 1.0
    return record.cost * doubt if record.origin == "measured" else record.cost


def rank_records(records: Iterable[TuningRecord], cpu: str = "") -> Sequence[TuningRecord]:
    """Successful records of one workload on one processor, best first, each set of knobs once.

    A measured record beats a modelled one, and that an inherited one, whatever their times; one of the model
    ``cpu`` beats those of other models, whose clocks and caches are others. Of several records with the same
    knobs and origin the one with the most repeats counts, then the latest. Times that were taken of a kernel
    before its result was found to be wrong do not count.
    """
    known_records = list(records)
    wrong: dict[str, str] = {}
    for record in known_records:
        if record.is_wrong:
            knobs = knobs_key(record.knobs)
            wrong[knobs] = max(record.time, wrong.get(knobs, ""))
    latest: dict[tuple[str, str], TuningRecord] = {}
    for record in known_records:
        knobs = knobs_key(record.knobs)
        if not record.seconds or (knobs in wrong and record.time <= wrong[knobs]):
            continue
        key = record.origin, knobs
        known = latest.get(key)
        if known is None or _trust(record, cpu) >= _trust(known, cpu):
            latest[key] = record
    return sorted(
        latest.values(),
        key=lambda record: (ORIGINS.index(record.origin), record.cpu != cpu, ranking_seconds(record)),
    )


def best_repeated(records: Iterable[TransformRecord], cpu: str = "") -> list[TransformRecord]:
    """The successful record with the most repeats for each transform, processor and number of threads.

    Those of the model ``cpu`` come before others; of equals the latest; sorted by these.
    """
    best: dict[tuple[str, str, int], TransformRecord] = {}
    for record in records:
        key = record.workload.to_json(), record.processor, record.threads
        known = best.get(key)
        if record.seconds and (known is None or _trust(record, cpu) >= _trust(known, cpu)):
            best[key] = record
    return [best[key] for key in sorted(best)]


def _trust(record: Record, cpu: str) -> tuple[bool, int, str]:
    """A key by which the time that counts comes last: of that model, of more repeats, the later one."""
    return record.cpu == cpu, len(record.seconds), record.time
