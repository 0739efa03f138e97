"""Write transformers for texts of any length to ONNX: an encoder, its 8-bit form, and a decoder.

Random weights, in the sizes of MiniLM (6 layers of 384) and of a small GPT (6 layers of 512) whose keys and
values of earlier words are inputs. ``encoder_int8.onnx`` is what ONNX Runtime's ``quantize_dynamic`` makes.
Needs torch and onnxruntime, as ``pip install '.[bench]'`` brings them. A file that exists is left as it is.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

SEED = 0
WORDS, LONGEST = 8000, 1024
MASKED = -1e4
"""Added to scores of what is not to be seen."""


class Attention(nn.Module):
    """Attention of all words, or of new words to those and earlier ones."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, words: Tensor, mask: Tensor, past: Sequence[Tensor] = ()) -> tuple[Tensor, ...]:
        """``words`` (batch, length, width) with the ``past`` keys and values; the result, and all of them."""
        batch, length, width = words.shape
        query, key, value = (
            layer(words).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if past:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5 + mask
        seen = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        return self.out(seen), key, value


class Layer(nn.Module):
    """Attention and two dense layers, normed after each as in BERT, or ``before`` as in GPT."""

    def __init__(self, width: int, heads: int, *, before: bool) -> None:
        super().__init__()
        self.attention, self.before = Attention(width, heads), before
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, words: Tensor, mask: Tensor, past: Sequence[Tensor] = ()) -> tuple[Tensor, ...]:
        seen, *kept = self.attention(self.first(words) if self.before else words, mask, past)
        words = words + seen if self.before else self.first(words + seen)
        dense = self.narrow(nn.functional.gelu(self.wide(self.second(words) if self.before else words)))
        return (words + dense if self.before else self.second(words + dense), *kept)


class Encoder(nn.Module):
    """Two scores for each text."""

    def __init__(self, width: int = 384, heads: int = 12, layers: int = 6) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LONGEST, width)
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, 2)
        self.layers = nn.ModuleList(Layer(width, heads, before=False) for _ in range(layers))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        words = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1]))[None])
        hidden = (1 - mask.to(words.dtype))[:, None, None, :] * MASKED
        for layer in self.layers:
            words = layer(words, hidden)[0]
        return self.scores(words[:, 0])


class Decoder(nn.Module):
    """Scores of the next word, and the keys and values of all words of each layer."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 6) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LONGEST, width)
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.layers = nn.ModuleList(Layer(width, heads, before=True) for _ in range(layers))

    def forward(self, ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        before, length = past[0].shape[2], ids.shape[1]
        places = torch.arange(before, before + length)
        hidden = torch.where(torch.arange(before + length)[None] <= places[:, None], 0.0, MASKED)
        words, kept = self.words(ids) + self.places(places)[None], []
        for number, layer in enumerate(self.layers):
            words, *both = layer(words, hidden, past[2 * number : 2 * number + 2])
            kept += both
        return (self.scores(self.norm(words[:, -1:])), *kept)


def write_encoder(path: Path) -> None:
    ids = torch.zeros(1, 16, dtype=torch.int64)
    dims = {"ids": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}, "scores": {0: "batch"}}
    _export(Encoder(), (ids, torch.ones_like(ids)), path, ["ids", "mask"], ["scores"], dims)


def write_quantized(encoder: Path, path: Path) -> None:
    quantize_dynamic(encoder, path, weight_type=QuantType.QInt8)


def write_decoder(path: Path) -> None:
    decoder = Decoder()
    count = 2 * len(decoder.layers)
    past = [torch.zeros(1, 8, 5, 64) for _ in range(count)]
    old, new = ([f"{name}{place}" for place in range(count)] for name in ("past", "kept"))
    dims = {"ids": {1: "new"}, **{name: {2: "past"} for name in old}, **{name: {2: "all"} for name in new}}
    _export(
        decoder, (torch.zeros(1, 3, dtype=torch.int64), *past), path, ["ids", *old], ["scores", *new], dims
    )


def _export(
    network: nn.Module,
    inputs: tuple[Tensor, ...],
    path: Path,
    names: Sequence[str],
    results: Sequence[str],
    dims: dict[str, dict[int, str]],
) -> None:
    torch.onnx.export(
        network.eval(),
        inputs,
        path,
        input_names=names,
        output_names=results,
        dynamic_axes=dims,
        opset_version=17,
        dynamo=False,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write them")
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    encoder = folder / "encoder.onnx"
    writers: dict[str, Callable[[Path], None]] = {
        "encoder": write_encoder,
        "encoder_int8": partial(write_quantized, encoder),
        "decoder": write_decoder,
    }
    for name, write in writers.items():
        path = folder / f"{name}.onnx"
        if not path.exists():
            torch.manual_seed(SEED)
            write(path)
        print(path, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
