"""The records that a compilation or a tuner looks up: those of several logs, by workload and processor.

It remembers the best of each, and prefers what was measured on the same model of CPU.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from topi_ext.errors import RelayLayoutError
from topi_ext.family import Machine, Workload, family_of
from topi_ext.tune.records.log import Problem, load
from topi_ext.tune.records.ranking import best_repeated, rank_records
from topi_ext.tune.records.record import ANY_THREADS, Record, TransformRecord, TuningRecord
from topi_ext.workloads.transform import TransformWorkload


class Database:
    """Records by workload and processor.

    Lookups leave out those whose knobs do not fit the workload any more. ``cpu`` is the model that is
    compiled for: what was measured on it comes before what was measured on other models of the same kind of
    processor, which may be faster at everything.
    """

    def __init__(self, records: Iterable[Record] = (), cpu: str = "") -> None:
        self._cpu = cpu
        self._records: dict[tuple[str, str], list[TuningRecord]] = {}
        self._best: dict[tuple[str, Machine, bool], TuningRecord | None] = {}
        self._transforms: list[TransformRecord] = []
        for record in records:
            self.add(record)

    @staticmethod
    def load(paths: Iterable[Path], cpu: str = "") -> "tuple[Database, list[Problem]]":
        """The database of several logs, and the lines that are no records."""
        records, problems = load(paths)
        return Database(records, cpu), problems

    @property
    def cpu(self) -> str:
        """The model whose records come first; empty where none does."""
        return self._cpu

    @cpu.setter
    def cpu(self, cpu: str) -> None:
        self._cpu = cpu
        self._best.clear()

    def add(self, record: Record) -> None:
        """Know one record more."""
        if isinstance(record, TransformRecord):
            self._transforms.append(record)
            return
        self._records.setdefault((record.workload.to_json(), record.processor), []).append(record)
        self._best.clear()

    def records(self, workload: Workload, processor: Machine) -> list[TuningRecord]:
        """Everything known of a workload on that processor and number of threads, failures too."""
        return [
            record
            for record in self._records.get((workload.to_json(), processor.name), ())
            if record.threads in (processor.threads, ANY_THREADS)
        ]

    def best(self, workload: Workload, processor: Machine, winograd: bool = True) -> TuningRecord | None:
        """The record to compile with; None where none succeeded, or none fits any more.

        Measured records come before modelled ones, those of :attr:`cpu` before others, then the fastest;
        without ``winograd`` those of Winograd kernels are left out. Inherited ones are of another machine and
        another compiler: they choose nothing, and are where tuning starts (:meth:`inherited`).
        """
        # Machines of one name may differ in what they may use.
        key = workload.to_json(), processor, winograd
        if key not in self._best:
            found = [
                record
                for record in self.records(workload, processor)
                if record.origin != "inherited" and (winograd or record.algorithm != "winograd")
            ]
            self._best[key] = next(self._fitting(workload, processor, found), None)
        return self._best[key]

    def inherited(self, workload: Workload, processor: Machine) -> list[TuningRecord]:
        """Where to start tuning: inherited and modelled records of this processor, best first.

        Those of any number of threads count: a good tile seldom depends on it.
        """
        found = self._records.get((workload.to_json(), processor.name), ())
        ours = [record for record in found if record.origin != "measured"]
        ours += [record for record in found if record.threads not in (processor.threads, ANY_THREADS)]
        return list(self._fitting(workload, processor, ours))

    def of_others(self, workload: Workload, processor: Machine) -> list[TuningRecord]:
        """Where to start tuning, too: the best record of each other processor, which may not fit this one."""
        found: list[TuningRecord] = []
        for (known, name), records in self._records.items():
            if known == workload.to_json() and name != processor.name:
                found += rank_records(records)[:1]
        return found

    def transforms(self, processor: Machine) -> list[TransformRecord]:
        """The layout transforms that were measured on that processor with that number of threads."""
        return [
            record
            for record in best_repeated(self._transforms, self._cpu)
            if (record.processor, record.threads) == (processor.name, processor.threads)
        ]

    def has_transform(self, workload: TransformWorkload, processor: Machine, cpu: str) -> bool:
        """Was that layout transform measured on that machine, with or without success?"""
        key = workload, processor.name, processor.threads, cpu
        return any(
            (record.workload, record.processor, record.threads, record.cpu) == key
            for record in self._transforms
        )

    def of_processor(self, processor: Machine) -> list[TuningRecord]:
        """All records of a kind of processor, to learn from."""
        return [
            record
            for (_, name), records in self._records.items()
            if name == processor.name
            for record in records
        ]

    def best_of(self, processor: Machine) -> list[TuningRecord]:
        """The record to compile with of every workload that has one on that processor."""
        workloads = {record.workload.to_json(): record.workload for record in self.of_processor(processor)}
        found = [self.best(workload, processor) for workload in workloads.values()]
        return [record for record in found if record is not None]

    def _fitting(
        self, workload: Workload, processor: Machine, records: Iterable[TuningRecord]
    ) -> Iterator[TuningRecord]:
        for record in rank_records(records, self._cpu):
            try:
                family_of(workload).knobs_from_dict(workload, processor, record.knobs)
            except RelayLayoutError:
                continue
            yield record
