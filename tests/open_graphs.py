"""Random ONNX graphs of images whose batch, height and width are open, beside ONNX Runtime.

``check(seed)`` reproduces one graph.
"""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import relay_layout
from relay_layout.errors import InputError, ModelError
from tests.fuzzing import failure
from tests.onnx_nodes import Nodes
from tests.onnx_reference import reference_session

CHANNELS = 4

SIZES = ((1, 64, 96), (2, 32, 64), (1, 37, 50), (3, 48, 41), (1, 61, 65))
"""Batches, heights and widths: most graphs fit multiples of 32, some all of them."""

UNFIT = (
    "of unknown shape",
    "may or may not fit",
    "cannot broadcast",
    "which it is for no input",
    "to have the same shape",
)
"""What an importer may say of a graph whose operands nobody can tell to be equal."""


@dataclass
class Images(Nodes):
    """A graph, and the images that its nodes made, all of as many channels."""

    images: list[str] = field(default_factory=list)

    def any(self) -> str:
        """One of the images, most often the last."""
        if self.random.random() < 0.6:
            return self.images[-1]
        return self.images[int(self.random.integers(len(self.images)))]

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape).astype("float32") / 4)

    def extent(self, name: str, axis: int) -> str:
        return self.node(f"Shape <start={axis}, end={axis + 1}> ({name})")

    # Steps

    def convolution(self) -> None:
        kernel, stride = self.pick(1, 2, 3, 5), self.pick(1, 1, 2)
        groups = self.pick(1, 1, 2, CHANNELS)
        around = self.pick(
            'auto_pad="SAME_UPPER"', 'auto_pad="SAME_LOWER"', f"pads=[{', '.join([str(kernel // 2)] * 4)}]"
        )
        weights = self.weights(CHANNELS, CHANNELS // groups, kernel, kernel)
        found = self.node(
            f"Conv <strides=[{stride}, {stride}], group={groups}, {around}> ({self.any()}, {weights})"
        )
        self.images.append(self.node(f"Relu ({found})") if self.random.random() < 0.5 else found)

    def transposed(self) -> None:
        kernel = self.pick(2, 3, 4)
        weights = self.weights(CHANNELS, CHANNELS, kernel, kernel)
        before = (kernel - 1) // 2
        around = f"pads=[{before}, {before}, {before}, {before}]"
        self.images.append(self.node(f"ConvTranspose <strides=[2, 2], {around}> ({self.any()}, {weights})"))

    def pooling(self) -> None:
        operator, kernel = self.pick("MaxPool", "AveragePool"), self.pick(2, 3)
        around = self.pick('auto_pad="SAME_UPPER"', "ceil_mode=1", "ceil_mode=0", "pads=[1, 1, 1, 1]")
        sliding = f"kernel_shape=[{kernel}, {kernel}], strides=[2, 2]"
        self.images.append(self.node(f"{operator} <{sliding}, {around}> ({self.any()})"))

    def resized(self) -> None:
        mode, coordinates = self.pick("nearest", "linear", "cubic"), self.pick("half_pixel", "asymmetric")
        factors = self.pick((2, 2), (2, 2), (0.5, 0.5), (1.5, 2), (0.75, 3))
        scales = self.constant(np.array([1, 1, *factors], "float32"))
        attributes = f'mode="{mode}", coordinate_transformation_mode="{coordinates}", nearest_mode="floor"'
        if mode != "nearest" and coordinates == "half_pixel" and self.random.random() < 0.3:
            attributes += ", antialias=1"
        self.images.append(self.node(f"Resize <{attributes}> ({self.any()}, , {scales})"))

    def as_large(self) -> None:
        """An image in the size of another."""
        image = self.any()
        outer = self.node(f"Shape <end=2> ({image})")
        size = self.node(f"Concat <axis=0> ({outer}, {self.node(f'Shape <start=2> ({self.any()})')})")
        attributes = 'mode="linear", coordinate_transformation_mode="half_pixel"'
        self.images.append(self.node(f"Resize <{attributes}> ({image}, , , {size})"))

    def padded(self) -> None:
        """To a multiple, as networks of windows do."""
        image, axis, number = self.any(), self.pick(2, 3), self.constant([int(self.pick(2, 4, 7))])
        over = self.node(f"Mod ({self.extent(image, axis)}, {number})")
        missing = self.node(f"Mod ({self.node(f'Sub ({number}, {over})')}, {number})")
        none = self.constant([0])
        widths = [none] * 8
        widths[4 + axis] = missing
        mode = self.pick("constant", "constant", "reflect", "edge")
        amounts = self.node(f"Concat <axis=0> ({', '.join(widths)})")
        self.images.append(self.node(f'Pad <mode="{mode}"> ({image}, {amounts})'))

    def sliced(self) -> None:
        image, axis = self.any(), self.pick(2, 3)
        extent = self.extent(image, axis)
        half = self.node(f"Div ({extent}, {self.constant([2])})")
        first, last, step = self.pick(
            (self.constant([0]), self.constant([2**62]), 2),
            (self.constant([1]), self.constant([2**62]), 2),
            (self.constant([1]), self.constant([2**62]), 1),
            (self.constant([0]), self.constant([-1]), 1),
            (half, extent, 1),
            (self.constant([0]), half, 1),
            (self.node(f"Neg ({half})"), self.constant([2**62]), 1),
            (self.constant([-1]), self.constant([-(2**62)]), -1),
        )
        bounds = f"{first}, {last}, {self.constant([axis])}, {self.constant([step])}"
        self.images.append(self.node(f"Slice ({image}, {bounds})"))

    def sum(self) -> None:
        self.images.append(self.node(f"{self.pick('Add', 'Mul', 'Sub', 'Max')} ({self.any()}, {self.any()})"))

    def joined(self) -> None:
        axis = self.pick(1, 1, 2, 3)
        found = self.node(f"Concat <axis={axis}> ({self.any()}, {self.any()})")
        weights = self.weights(CHANNELS, CHANNELS * (1 + (axis == 1)), 1, 1)
        self.images.append(self.node(f"Conv ({found}, {weights})"))

    def scaled(self) -> None:
        """By what the means over the image say, as in squeeze and excitation."""
        image = self.any()
        mean = self.node(f"GlobalAveragePool ({image})")
        gate = self.node(f"Sigmoid ({self.node(f'Conv ({mean}, {self.weights(CHANNELS, CHANNELS, 1, 1)})')})")
        self.images.append(self.node(f"Mul ({image}, {gate})"))

    def rows(self) -> None:
        """Pixels as rows, multiplied by a matrix, and back."""
        image = self.any()
        flat = self.node(f"Reshape ({image}, {self.constant([0, CHANNELS, -1])})")
        turned = self.node(f"Transpose <perm=[0, 2, 1]> ({flat})")
        product = self.node(f"MatMul ({turned}, {self.weights(CHANNELS, CHANNELS)})")
        back = self.node(f"Transpose <perm=[0, 2, 1]> ({product})")
        self.images.append(self.node(f"Reshape ({back}, {self.node(f'Shape ({image})')})"))

    def blocks(self) -> None:
        """Pixels between channels and the image."""
        fewer = self.node(f"SpaceToDepth <blocksize=2> ({self.any()})")
        mixed = self.node(f"Conv ({fewer}, {self.weights(CHANNELS, 4 * CHANNELS, 1, 1)})")
        self.images.append(mixed)


STEPS = (
    Images.convolution,
    Images.convolution,
    Images.transposed,
    Images.pooling,
    Images.resized,
    Images.as_large,
    Images.padded,
    Images.sliced,
    Images.sum,
    Images.sum,
    Images.joined,
    Images.scaled,
    Images.rows,
    Images.blocks,
)


def random_model(seed: int) -> Any:
    """A graph of one input, whose last image is its output."""
    random = np.random.default_rng(seed)
    graph = Images(random, images=["x"])
    for _ in range(int(random.integers(3, 9))):
        STEPS[int(random.integers(len(STEPS)))](graph)
    output = graph.node(f"Identity ({graph.images[-1]})")
    model = graph.model(f"(float[n, {CHANNELS}, h, w] x) => (float[a, b, c, d] {output})", opset=18)
    # ONNX Runtime computes what nobody reads, and may refuse it.
    read = {output}
    for node in reversed(model.graph.node):
        if node.output[0] in read:
            read.update(node.input)
        else:
            model.graph.node.remove(node)
    return model


def fuzzed(seed: int) -> str | None:
    """The reproducer of a graph that fails, None if it does not."""
    return failure(__name__, check, seed)


def check(seed: int) -> int:
    """One artifact gives what ONNX Runtime gives of all sizes, or refuses them; how many were compared.

    It may refuse sizes that ONNX Runtime takes, never the other way around.
    """
    model = random_model(seed)
    reference = reference_session(model.SerializeToString())
    try:
        compiled = relay_layout.compile(model, shipped_records=False, threads=1)
    except ModelError as error:
        if any(text in str(error) for text in UNFIT):
            return 0
        raise
    with TemporaryDirectory() as folder:
        compiled.save(Path(folder) / "model.rla")
        session = relay_layout.load(Path(folder) / "model.rla", threads=1)
    random = np.random.default_rng(seed)
    compared = 0
    for batch, height, width in SIZES:
        image = random.standard_normal((batch, CHANNELS, height, width)).astype("float32")
        try:
            (wanted,) = reference.run(None, {"x": image})
        except Exception:
            wanted = None
        try:
            (found,) = session.run({"x": image}).values()
        except InputError:
            continue
        assert wanted is not None, f"{image.shape} is no size of the graph, and gave {found.shape}"
        assert found.shape == wanted.shape, (image.shape, found.shape, wanted.shape)
        tolerance = 1e-4 * max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=tolerance, err_msg=str(image.shape))
        compared += 1
    return compared
