"""The built-in networks by name. Nothing is downloaded: weights come from a fixed seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relay_layout.errors import ModelError
from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.convnext import convnext_tiny
from relay_layout.models.densenet import densenet121
from relay_layout.models.efficientnet import efficientnet_b0
from relay_layout.models.inception_v3 import inception_v3
from relay_layout.models.mobilenet_v2 import mobilenet_v2
from relay_layout.models.mobilenet_v3 import mobilenet_v3_large
from relay_layout.models.network import Network, Value
from relay_layout.models.options import Options
from relay_layout.models.resnet import resnet18, resnet50
from relay_layout.models.squeezenet import squeezenet1_1
from relay_layout.models.unet import unet
from relay_layout.models.vgg import vgg16
from relay_layout.models.yolo import yolo


@dataclass(frozen=True)
class _Entry:
    """A definition, which gives one value or several by name, and what it was published for."""

    define: Callable[[NetworkBuilder, Value, Options], Value | Mapping[str, Value]]
    image_size: int = 224
    classes: int = 1000


_ENTRIES: dict[str, _Entry] = {
    "convnext_tiny": _Entry(convnext_tiny),
    "densenet121": _Entry(densenet121),
    "efficientnet_b0": _Entry(efficientnet_b0),
    "inception_v3": _Entry(inception_v3, image_size=299),
    "mobilenet_v2": _Entry(mobilenet_v2),
    "mobilenet_v3_large": _Entry(mobilenet_v3_large),
    "resnet18": _Entry(resnet18),
    "resnet50": _Entry(resnet50),
    "squeezenet1_1": _Entry(squeezenet1_1),
    "unet": _Entry(unet, image_size=256, classes=2),
    "vgg16": _Entry(vgg16),
    "yolo": _Entry(yolo, image_size=320, classes=80),
}


def names() -> tuple[str, ...]:
    """The names :func:`build` knows, sorted."""
    return tuple(sorted(_ENTRIES))


def build(
    name: str,
    *,
    batch: int | str = 1,
    image_size: int | tuple[int, int] | None = None,
    classes: int | None = None,
    width: float = 1.0,
    seed: int = 0,
) -> Network:
    """A built-in network in inference form, float32, with one input.

    Its input is named "input", [batch,3,H,W]; its output "output", [batch,classes] for a classifier and
    [batch,classes,H,W] for unet; yolo has the outputs "p3", "p4" and "p5". ``batch`` is an extent or the
    name of a symbolic one. ``image_size``, one extent for H and W or a pair (H, W), and ``classes`` are
    the published ones when left out: 224 and 1000, but 299 for inception_v3, 256 and 2 for unet, 320 and
    80 for yolo. ``width`` scales all channels (to multiples of 8), for small copies in tests; ``seed``
    gives the weights.

    ModelError for an unknown name, an option out of range, or an image too small for the network.
    """
    if name not in _ENTRIES:
        raise ModelError(f"unknown built-in network '{name}'; available: {', '.join(names())}")
    entry = _ENTRIES[name]
    if image_size is None:
        image_size = entry.image_size
    if classes is None:
        classes = entry.classes
    rows, columns = (image_size, image_size) if isinstance(image_size, int) else image_size
    extents = {"batch": batch, "image height": rows, "image width": columns, "classes": classes}
    for option, extent in extents.items():
        if isinstance(extent, int) and extent < 1:
            raise ModelError(f"network '{name}': {option} must be at least 1, not {extent}")
    if isinstance(batch, str) and not batch.isidentifier():
        raise ModelError(f"network '{name}': '{batch}' cannot name a symbolic batch")
    if not width > 0:
        raise ModelError(f"network '{name}': width must be above 0, not {width}")
    if seed < 0:
        raise ModelError(f"network '{name}': seed must be at least 0, not {seed}")
    builder = NetworkBuilder(name, seed=seed)
    data = builder.input("input", (batch, 3, rows, columns))
    made = entry.define(builder, data, Options(classes, width))
    return builder.build({"output": made} if isinstance(made, Value) else made)
