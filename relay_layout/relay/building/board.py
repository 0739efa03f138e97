"""Boards for whole networks: a session over RPC that takes what ``export_library`` wrote."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm.runtime.module import BenchmarkResult

from relay_layout.artifact import Artifact, is_artifact, read_artifact
from relay_layout.errors import InputError
from relay_layout.relay.bound_parameters import BoundParameter, parameters_of
from relay_layout.relay.graph_executor import RuntimeModule
from relay_layout.runtime.remote import RemoteSession


class Board:
    """A machine at the other end of ``connection`` (``tvm.rpc.RPCSession``), which is asked for all else.

    Networks are sent when they are loaded, as code and weights; the machine needs TVM alone.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._networks: dict[str, Path] = {}
        self._others: set[str] = set()

    def upload(self, data: str | os.PathLike[str] | bytearray, target: str | None = None) -> None:
        """Name a network for :meth:`load_module`, by its file's name where ``target`` is None.

        Other files are sent as they are.
        """
        if not isinstance(data, bytearray) and is_artifact(data):
            self._networks[target or Path(data).name] = Path(data)
            self._others.discard(target or Path(data).name)
            return
        self.connection.upload(data if isinstance(data, bytearray) else os.fspath(data), target)
        if target is not None or not isinstance(data, bytearray):
            self._others.add(target or Path(str(data)).name)

    def load_module(self, path: str) -> Any:
        """The network of that name, or the library of TVM's. InputError where neither was uploaded."""
        if path in self._others:
            return self.connection.load_module(path)
        if path not in self._networks:
            known = ", ".join(self._networks) or "none"
            raise InputError(
                f"no network '{path}' was uploaded, only {known}; upload what export_library wrote"
            )
        return BoardLibrary(read_artifact(self._networks[path]), self.connection)

    def device(self, dev_type: Any, dev_id: int = 0) -> Any:
        """Its CPU, whatever target is named: what :func:`relay.build` makes runs there."""
        return self.connection.cpu(dev_id)

    def __getattr__(self, name: str) -> Any:
        if name == "connection":
            raise AttributeError(name)
        return getattr(self.connection, name)


class BoardLibrary:
    """A network for a board: ``library["default"](remote.cpu())`` loads it there."""

    def __init__(self, artifact: Artifact, connection: Any) -> None:
        self._artifact = artifact
        self._connection = connection

    def __getitem__(self, name: str) -> Callable[..., RuntimeModule]:
        """The function that makes a runtime module for a device. AttributeError for another name."""
        if name != "default":
            raise AttributeError(f"there is no function '{name}', only 'default'")
        return self._create

    def _create(self, *devices: Any) -> RuntimeModule:
        session = RemoteSession(self._artifact, self._connection)
        return _BoardModule(session, parameters_of(self._artifact.manifest))


class _BoardModule(RuntimeModule):
    """A network that runs on a board, which takes its times itself."""

    def __init__(self, session: RemoteSession, bound: Mapping[str, BoundParameter]) -> None:
        super().__init__(session, bound)
        self._there = session

    def check_device(self, device: Any) -> None:
        """Any will do: the network runs where it was loaded."""

    def time_evaluator(
        self,
        func_name: str,
        dev: Any,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **options: Any,
    ) -> Callable[..., BenchmarkResult]:
        """As :meth:`RuntimeModule.time_evaluator`; "run" alone can be timed."""
        if func_name != "run":
            raise InputError(f"time_evaluator: '{func_name}' cannot be timed on a board, only 'run'")

        def measure() -> BenchmarkResult:
            self.run()
            return BenchmarkResult(self._there.times(number, repeat, min_repeat_ms))

        return measure
