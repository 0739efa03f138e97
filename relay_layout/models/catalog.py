"""The built-in networks by name. Nothing is downloaded: weights come from a fixed seed."""

from collections.abc import Callable

from relay_layout.errors import ModelError
from relay_layout.models.mobilenet_v2 import mobilenet_v2
from relay_layout.models.network import Network, NetworkBuilder, Value
from relay_layout.models.options import Options
from relay_layout.models.resnet import resnet18, resnet50
from relay_layout.models.squeezenet import squeezenet1_1
from relay_layout.models.vgg import vgg16

Definition = Callable[[NetworkBuilder, Value, Options], Value]

_DEFINITIONS: dict[str, Definition] = {
    definition.__name__: definition for definition in (mobilenet_v2, resnet18, resnet50, squeezenet1_1, vgg16)
}

IMAGE_SIZE = 224


def names() -> tuple[str, ...]:
    """The names :func:`build` knows, sorted."""
    return tuple(sorted(_DEFINITIONS))


def build(
    name: str,
    *,
    batch: int | str = 1,
    image_size: int | tuple[int, int] | None = None,
    classes: int = 1000,
    width: float = 1.0,
    seed: int = 0,
) -> Network:
    """A built-in network in inference form, float32, with one input and one output.

    Its input is named "input", [batch,3,H,W]; its output "output", [batch,classes]. ``batch`` is an
    extent or the name of a symbolic one; ``image_size`` is one extent for H and W or a pair (H, W), 224
    when left out; ``width`` scales all channels (to multiples of 8), for small copies in tests; ``seed``
    gives the weights.

    ModelError for an unknown name, an option out of range, or an image too small for the network.
    """
    if name not in _DEFINITIONS:
        raise ModelError(f"unknown built-in network '{name}'; available: {', '.join(names())}")
    if image_size is None:
        image_size = IMAGE_SIZE
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
    return builder.build({"output": _DEFINITIONS[name](builder, data, Options(classes, width))})
