"""Export networks of timm and torchvision to ONNX, as their users would, with random weights.

Needs timm, torchvision and onnxscript. They bring another torch than this package is tested with, so give
them an environment of their own. A file that exists is left as it is; a network that cannot be exported is
named and left out. What was exported is measured by ``relay-layout bench FOLDER/*.onnx``.

scripts/networks.txt names them: on each line a collection (timm, or classification, segmentation, video or
detection of torchvision), a network, and the extents of its input after the batch where they are unusual.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision

NETWORKS = Path(__file__).with_name("networks.txt")
SEED = 0
EXTENTS = {"video": (3, 16, 112, 112), "detection": (3, 320, 320)}
IMAGE = (3, 224, 224)

SMALL = 0.1
"""What parameters that do nothing are below, and biases are around."""

TELLING = 0.005
"""What two images' results differ by, relative to the largest number, where they tell enough."""

SEEN = 4
"""How many images statistics are of: one alone says little of others in deep networks."""

NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)
LAYERS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.ConvTranspose2d, torch.nn.Linear)


class Scores(torch.nn.Module):
    """A network for segmentation, whose result is a dictionary, with the scores alone as its result."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Any) -> Any:
        return self.network(image)["out"]


class Boxes(torch.nn.Module):
    """A detector, which takes a list of images, with what it finds on one of them as its results."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Any) -> Any:
        return tuple(self.network([images[0]])[0].values())


def build(collection: str, name: str) -> Any:
    """A network with random parameters, ready for inference; its batch norms change what they are given."""
    torch.manual_seed(SEED)
    if collection == "timm":
        network = timm.create_model(name, pretrained=False)
    elif collection == "classification":
        network = getattr(torchvision.models, name)(weights=None)
    elif collection == "video":
        network = getattr(torchvision.models.video, name)(weights=None)
    elif collection == "detection":
        detection = torchvision.models.detection
        own = {} if name.startswith("ssd") else {"min_size": 320, "max_size": 320}
        network = Boxes(getattr(detection, name)(weights=None, weights_backbone=None, **own))
    else:
        network = Scores(getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None))
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d | torch.nn.BatchNorm3d):
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.8, 1.2)
    return network.eval()


def difference(network: Any, image: Any) -> float:
    """How much results depend on the image: what two differ by, relative to the largest number."""
    with torch.no_grad():
        one, other = (network(torch.randn_like(image)) for _ in range(2))
    return float((one - other).abs().max() / one.abs().max())


def make_telling(network: Any, image: Any, *, centre: bool = False) -> None:
    """Change random parameters so that all count: what a network computes then tells whether it is right.

    Many begin with branches that are zero, or nearly, and results that hardly depend on the image. Parameters
    that are all the same small number become random ones, and layers give results of unit deviation.
    ``centre`` gives batch norms the statistics of what they are given. It keeps what all images share from
    growing from layer to layer; in some networks differences grow instead, and with them rounding.
    """
    for module in network.modules():
        for name, parameter in module.named_parameters(recurse=False):
            first = parameter.flatten()[0]
            if parameter.numel() > 1 and first.abs() < SMALL and bool((parameter == first).all()):
                if parameter.ndim > 1:
                    torch.nn.init.normal_(parameter)
                elif name == "bias":
                    torch.nn.init.normal_(parameter, std=SMALL)
                else:
                    torch.nn.init.uniform_(parameter, 0.5, 1.5)
    seen: set[int] = set()

    def scaled(module: Any, inputs: Any, output: Any) -> Any:
        deviation = output.std()
        if id(module) in seen or not deviation > 0:
            return output
        seen.add(id(module))
        module.weight.data /= deviation
        if module.bias is not None:
            module.bias.data /= deviation
        return output / deviation

    def centred(module: Any, inputs: Any, output: Any) -> Any:
        data = inputs[0].transpose(0, 1).flatten(1)
        if id(module) in seen or data.shape[1] <= SEEN:
            return output
        seen.add(id(module))
        module.running_mean.copy_(data.mean(1))
        variance = data.var(1)
        module.running_var.copy_(variance.clamp(min=SMALL * variance.mean()))
        return module.forward(inputs[0])

    hooks = [
        module.register_forward_hook(scaled if isinstance(module, LAYERS) else centred)
        for module in network.modules()
        if isinstance(module, LAYERS + (NORMS if centre else ()))
    ]
    with torch.no_grad():
        network(torch.cat([image, torch.randn(SEEN - 1, *image.shape[1:])]))
    for hook in hooks:
        hook.remove()


def export(collection: str, name: str, given: Sequence[int], path: Path) -> str:
    """Write one network, for one image, of the extents that are ``given``; what happened, in a line."""
    network = build(collection, name)
    usual = getattr(network, "default_cfg", {}).get("input_size", EXTENTS.get(collection, IMAGE))
    shape = given or usual
    image = torch.randn(1, *shape)
    # Detectors are left alone: the biases of their scores keep boxes few.
    if collection != "detection":
        make_telling(network, image)
        if difference(network, image) < TELLING:
            make_telling(network, image, centre=True)
    partial = path.with_suffix(".partial")
    # The newer exporter does not follow what detectors do with their boxes.
    dynamo = collection != "detection"
    options: dict[str, Any] = {"external_data": False} if dynamo else {"opset_version": 17}
    try:
        torch.onnx.export(
            network, (image,), partial, dynamo=dynamo, verbose=False, input_names=["input"], **options
        )
    # The exporter fails in many ways, and the other networks are wanted all the same.
    except Exception as error:
        return f"{name}: not exported: {str(error).partition(chr(10))[0] or type(error).__name__}"
    partial.rename(path)
    return f"{path}: float32 {[1, *shape]}"


def main() -> int:
    """Export all of them, or those that are named; 1 if one could not be exported."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder to write to")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks (all of scripts/networks.txt)")
    arguments = parser.parse_args()
    known = {
        name: (kind, extents) for kind, name, *extents in map(str.split, NETWORKS.read_text().splitlines())
    }
    unknown = sorted(set(arguments.names) - set(known))
    if unknown:
        parser.error(f"{NETWORKS} has no {', '.join(unknown)}")
    warnings.filterwarnings("ignore")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    missing = False
    for name in arguments.names or known:
        path, (collection, extents) = arguments.folder / f"{name}.onnx", known[name]
        if not path.exists():
            print(export(collection, name, [int(extent) for extent in extents], path), flush=True)
            missing |= not path.exists()
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())
