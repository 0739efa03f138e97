"""Machines that TVM's RPC tracker lends under a key.

Asked over its own protocol: TVM's client waits for a machine without end.
"""

import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from topi_ext.errors import RelayLayoutError
from topi_ext.messages import last_line, system_reason

WAIT = 300.0
"""Seconds to wait for a machine when none is left, where nothing else is said."""

_ANSWER_TIMEOUT = 5.0
"""Seconds in which a tracker has to accept a connection."""


@dataclass(frozen=True)
class RemoteDevice:
    """Machines that a tracker lends: its address, their key, and how many seconds to wait for one."""

    host: str
    port: int
    key: str
    wait: float = WAIT

    @property
    def place(self) -> str:
        """The tracker's address for messages."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Loan:
    """A machine lent for one session: its address, and the word by which its server knows who may come."""

    host: str
    port: int
    match: str

    @property
    def place(self) -> str:
        """The machine's address for messages."""
        return f"{self.host}:{self.port}"

    def connect(self, seconds: float) -> Any:
        """The session (``tvm.rpc.RPCSession``), which the server ends after so long; 0 for never."""
        from tvm import rpc

        return rpc.connect(self.host, self.port, key=self.match, session_timeout=seconds)


class Lender:
    """Asks the tracker for one machine after the other, without waiting longer than it is told to."""

    def __init__(self, remote: RemoteDevice) -> None:
        self._remote = remote
        self._socket: socket.socket | None = None
        self._asked = False

    def lend(self, seconds: float) -> Loan | None:
        """A free machine, as soon as there is one; None where there is none, or no tracker, for so long.

        The request stays in the tracker's queue from one call to the next.
        """
        from tvm.rpc import base

        try:
            if self._socket is None:
                self._socket = _open(self._remote.host, self._remote.port)
            if not self._asked:
                base.sendjson(self._socket, [base.TrackerCode.REQUEST, self._remote.key, "", 1])
                self._asked = True
            if not select.select([self._socket], [], [], seconds)[0]:
                return None
            self._asked = False
            _, (host, port, match) = base.recvjson(self._socket)
        except (OSError, ValueError, RelayLayoutError):
            self.close()
            time.sleep(seconds)
            return None
        return Loan(str(host), int(port), str(match))

    def close(self) -> None:
        """Give up the request."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._asked = None, False


def borrow(remote: RemoteDevice, seconds: float) -> Any:
    """A session of at most ``seconds`` (0 for no limit) on a machine of that key.

    Raises :class:`RelayLayoutError` where there is none, or none is free within ``remote.wait``.
    """
    check_remote(remote)
    lender = Lender(remote)
    try:
        loan = lender.lend(remote.wait)
    finally:
        lender.close()
    if loan is None:
        raise none_left(remote)
    try:
        return loan.connect(seconds)
    except Exception as error:
        raise RelayLayoutError(
            f"the machine at {loan.place} does not answer: {last_line(str(error))}"
        ) from None


def check_remote(remote: RemoteDevice) -> None:
    """RelayLayoutError unless the tracker answers and knows a machine of that key."""
    keys = set(machines(remote.host, remote.port).values())
    if remote.key not in keys:
        others = f"only {', '.join(sorted(keys))}" if keys else "none at all"
        raise RelayLayoutError(
            f"the RPC tracker at {remote.place} has no machine with key '{remote.key}', {others}"
        )


def none_left(remote: RemoteDevice) -> RelayLayoutError:
    """Why no machine can be had."""
    try:
        check_remote(remote)
    except RelayLayoutError as error:
        return error
    return RelayLayoutError(
        f"no machine with key '{remote.key}' of the RPC tracker at {remote.place} was free "
        f"for {remote.wait:.0f} s; those it has are lent, or hang"
    )


def machines(host: str, port: int) -> dict[str, str]:
    """The keys of all machines that a tracker knows, lent or not, by address (``HOST:PORT``).

    RelayLayoutError where it does not answer.
    """
    from tvm.rpc import base

    connection = _open(host, port)
    try:
        base.sendjson(connection, [base.TrackerCode.SUMMARY])
        _, summary = base.recvjson(connection)
        return {
            "{}:{}".format(*server["addr"]): str(server["key"]).partition(":")[2]
            for server in summary["server_info"]
        }
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _no_answer(host, port, error) from None
    finally:
        connection.close()


def _open(host: str, port: int) -> socket.socket:
    from tvm.rpc import base

    try:
        connection = socket.create_connection((host, port), timeout=_ANSWER_TIMEOUT)
    except OSError as error:
        raise RelayLayoutError(f"no RPC tracker at {host}:{port}: {system_reason(error)}") from None
    try:
        connection.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
        if struct.unpack("<i", base.recvall(connection, 4))[0] != base.RPC_TRACKER_MAGIC:
            raise ValueError("it is something else")
    except (OSError, ValueError) as error:
        connection.close()
        raise _no_answer(host, port, error) from None
    return connection


def _no_answer(host: str, port: int, error: Exception) -> RelayLayoutError:
    return RelayLayoutError(f"the RPC tracker at {host}:{port} does not answer: {last_line(str(error))}")
