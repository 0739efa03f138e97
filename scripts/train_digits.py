"""Train the small residual network of tests/data/digits and write it with its held-out images.

The data are scikit-learn's digits: 1,797 images of 8x8 pixels with values 0 to 16. The network is one
``relay_layout.models.Network``; torch trains the parameters of its nodes, and the same description is
exported to ONNX with BatchNormalization kept. On one machine the result is the same at every run.

Writes into the output folder:
  digits.onnx      input "input" float32 [N,1,8,8] in [0,1], output "output" float32 [N,10], logits
  test_split.npz   "images" float32 [360,1,8,8] ready as input, "labels" int64 [360]; never trained on

Needs torch, scikit-learn, onnx and onnxruntime.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.nn import functional

from relay_layout.models import Network, NetworkBuilder, Value, export_onnx
from relay_layout.models.operations import (
    Add,
    BatchNormalization,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    Relu,
)

CLASSES = 10
BRIGHTEST = 16
TEST_IMAGES = 360
SEED = 0
EPOCHS = 40
BATCH = 64
LEARNING_RATE = 0.01
REQUIRED_ACCURACY = 0.98


def digits_network() -> Network:
    """A residual network for [N,1,8,8], N symbolic: 16 channels at 8x8, then 32 at 4x4."""
    builder = NetworkBuilder("digits", seed=SEED)
    data = builder.input("input", ("N", 1, 8, 8))
    value = builder.convolution(data, "stem.conv", 16, 3, padding=1)
    value = builder.batch_normalization(value, "stem.bn")
    value = builder.relu(value, "stem.relu")
    value = _block(builder, value, "block1", 16, 1)
    value = _block(builder, value, "block2", 32, 2)
    value = _block(builder, value, "block3", 32, 1)
    value = builder.global_average_pool(value, "pool")
    value = builder.flatten(value, "flatten")
    return builder.build({"output": builder.dense(value, "classifier", CLASSES, gain=1.0)})


def _block(builder: NetworkBuilder, data: Value, name: str, channels: int, strides: int) -> Value:
    value = builder.convolution(data, f"{name}.conv1", channels, 3, strides=strides, padding=1)
    value = builder.batch_normalization(value, f"{name}.bn1")
    value = builder.relu(value, f"{name}.relu1")
    value = builder.convolution(value, f"{name}.conv2", channels, 3, padding=1)
    value = builder.batch_normalization(value, f"{name}.bn2")
    shortcut = data
    if strides != 1:
        shortcut = builder.convolution(data, f"{name}.shortcut.conv", channels, 1, strides=strides)
        shortcut = builder.batch_normalization(shortcut, f"{name}.shortcut.bn")
    value = builder.add(value, shortcut, f"{name}.add")
    return builder.relu(value, f"{name}.relu2")


def load_split() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Training images, test images ([M,1,8,8] in [0,1]), training labels, test labels; a fixed split."""
    digits = load_digits()
    # Sixteenths are exact in float32, so the stored images are the data set itself.
    images = (digits.images[:, np.newaxis] / BRIGHTEST).astype(np.float32)
    labels = digits.target.astype(np.int64)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_IMAGES, random_state=SEED, stratify=labels
    )
    return train_images, test_images, train_labels, test_labels


def forward(
    network: Network, tensors: dict[str, torch.Tensor], images: torch.Tensor, *, training: bool
) -> torch.Tensor:
    """The network's logits, computed by torch from ``tensors``; training updates the running statistics."""
    values = {network.inputs[0].name: images}
    for node in network.nodes:
        inputs = [values[name] for name in node.inputs]
        weights = [tensors[parameter.name] for parameter in node.parameters]
        match node.operation:
            case Convolution() as operation:
                padding = operation.padding[:2]
                result = functional.conv2d(inputs[0], weights[0], None, operation.strides, padding)
            case BatchNormalization() as operation:
                gamma, beta, mean, variance = weights
                result = functional.batch_norm(
                    inputs[0], mean, variance, gamma, beta, training, eps=operation.epsilon
                )
            case Relu():
                result = functional.relu(inputs[0])
            case Add():
                result = inputs[0] + inputs[1]
            case GlobalAveragePool():
                result = inputs[0].mean((2, 3), keepdim=True)
            case Flatten():
                result = inputs[0].flatten(1)
            case Dense():
                result = functional.linear(inputs[0], *weights)
            case _:
                raise NotImplementedError(type(node.operation).__name__)
        values[node.output.name] = result
    return values[network.outputs[0].name]


def train(network: Network, images: NDArray[np.float32], labels: NDArray[np.int64]) -> Network:
    """The network with parameters trained on these images; the number of epochs is fixed beforehand."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    tensors = {
        parameter.name: torch.tensor(parameter.values()).requires_grad_(parameter.trainable)
        for parameter in network.parameters()
    }
    trained = [tensor for tensor in tensors.values() if tensor.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, weight_decay=0.01)
    batches = len(images) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=EPOCHS * batches)
    all_images, all_labels = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(EPOCHS):
        order = torch.randperm(len(images))
        for batch in range(batches):
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            logits = forward(network, tensors, all_images[chosen], training=True)
            loss = functional.cross_entropy(logits, all_labels[chosen], label_smoothing=0.1)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return network.with_parameters({name: tensor.detach().numpy() for name, tensor in tensors.items()})


def accuracy(model: Path, images: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """The share of images that ONNX Runtime classifies as labelled."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"input": images})
    return float((logits.argmax(axis=1) == labels).mean())


def main() -> int:
    """Train, write both files, print the accuracy; 1 if it is not above the required one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).resolve().parent.parent / "tests" / "data" / "digits"
    parser.add_argument("--output", type=Path, default=default, help="folder to write to (%(default)s)")
    output: Path = parser.parse_args().output

    train_images, test_images, train_labels, test_labels = load_split()
    network = train(digits_network(), train_images, train_labels)
    output.mkdir(parents=True, exist_ok=True)
    model = output / "digits.onnx"
    export_onnx(network, model)
    np.savez_compressed(output / "test_split.npz", images=test_images, labels=test_labels)
    reached = accuracy(model, test_images, test_labels)
    print(
        f"{model}: {network.parameter_count()} parameters, "
        f"accuracy {reached:.4f} on {len(test_labels)} held-out images"
    )
    return 0 if reached > REQUIRED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
