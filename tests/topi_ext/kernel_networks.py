"""The convolutions of ResNet-50 and MobileNetV2 in every layout, as workloads."""

from collections.abc import Iterator

from topi_ext.workloads.convolution import ConvolutionWorkload

Shape = tuple[int, int, int, int, int, int]
"""In channels, out channels, image, kernel, stride, groups."""


def resnet50_shapes() -> Iterator[Shape]:
    yield 3, 64, 224, 7, 2, 1
    entering, image = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        stride = 1 if stage == 0 else 2
        yield entering, width, image, 1, 1, 1
        yield width, width, image, 3, stride, 1
        yield entering, 4 * width, image, 1, stride, 1
        image //= stride
        yield width, 4 * width, image, 1, 1, 1
        entering = 4 * width
        if blocks > 1:
            yield entering, width, image, 1, 1, 1
            yield width, width, image, 3, 1, 1


def mobilenet_v2_shapes() -> Iterator[Shape]:
    yield 3, 32, 224, 3, 2, 1
    entering, image = 32, 112
    for expansion, out, blocks, stride in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for step in [stride, 1][: min(blocks, 2)]:
            inner = entering * expansion
            if expansion > 1:
                yield entering, inner, image, 1, 1, 1
            yield inner, inner, image, 3, step, inner
            image //= step
            yield inner, out, image, 1, 1, 1
            entering = out
    yield 320, 1280, 7, 1, 1, 1


SHAPES = sorted({*resnet50_shapes(), *mobilenet_v2_shapes()})


def workload_for(shape: Shape, data_layout: str, kernel_layout: str, out_layout: str) -> ConvolutionWorkload:
    channels, out_channels, image, kernel, stride, groups = shape
    return ConvolutionWorkload(
        batch=1,
        in_channels=channels,
        out_channels=out_channels,
        in_height=image,
        in_width=image,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        padding=(kernel // 2,) * 4,
        dilation=(1, 1),
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        dtype="float32",
        out_dtype="float32",
    )


def workloads() -> Iterator[ConvolutionWorkload]:
    for shape in SHAPES:
        channels, out_channels, *_, groups = shape
        yield workload_for(shape, "NCHW", "OIHW", "NCHW")
        yield workload_for(shape, "NHWC", "HWOI" if groups > 1 else "HWIO", "NHWC")
        for block in (8, 16):
            if out_channels % block:
                continue
            if groups == 1:
                yield workload_for(shape, "NHWC", f"OHWI{block}o", "NHWC")
            if channels % block == 0:
                kernel_layout = f"OIHW{block}o" if groups > 1 else f"OIHW{block}i{block}o"
                yield workload_for(shape, f"NCHW{block}c", kernel_layout, f"NCHW{block}c")
            elif groups == 1:
                yield workload_for(shape, "NCHW", f"OIHW{block}o", f"NCHW{block}c")


WORKLOADS = list(workloads())
