"""Banks of shared memory: how often an access takes longer because lanes meet in one.

Serving 128 bytes at a time (CUDA programming guide, "Shared Memory"), 32 banks of 4 bytes take all lanes of
a warp with 4 bytes or less, half a warp with 8, a quarter with 16. Lanes that ask for the same word do not
meet.
"""

import numpy as np

BANKS, WORD = 32, 4


def waits(addresses: np.ndarray, size: int, active: np.ndarray) -> int:
    """Turns beyond the first that accesses take.

    ``addresses`` are the bytes where each lane begins, ``size`` how many it takes, lanes of a warp side by
    side; ``active`` which of them take part.
    """
    lanes = min(BANKS, BANKS * WORD // max(size, WORD))
    words = max(1, size // WORD)
    first = (addresses // WORD).reshape(-1, lanes, 1) + np.arange(words)
    taken = np.broadcast_to(active.reshape(-1, lanes, 1), first.shape)
    # Idle lanes ask for what no other does, in a bank of their own.
    found = np.sort(np.where(taken, first, -1).reshape(len(first), -1), axis=1)
    new = np.ones(found.shape, bool)
    new[:, 1:] = found[:, 1:] != found[:, :-1]
    new &= found >= 0
    counts = np.zeros((len(found), BANKS), int)
    rows = np.broadcast_to(np.arange(len(found))[:, None], found.shape)
    np.add.at(counts, (rows[new], found[new] % BANKS), 1)
    return int(np.maximum(counts.max(1) - 1, 0).sum())
