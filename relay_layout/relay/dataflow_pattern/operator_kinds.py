"""How an operator reads its operands, as patterns ask for it: Relay's ``TOpPattern``."""

ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSABLE, OPAQUE = 0, 1, 2, 3, 4, 8

_MEMBERS = {
    ELEMENTWISE: """
        abs acos acosh asin asinh atan atanh cast ceil clip copy cos cosh erf exp fixed_point_multiply floor
        isfinite isinf isnan log log10 log2 logical_not bitwise_not negative nn.fast_softmax nn.leaky_relu
        nn.relu ones_like round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zeros_like fast_exp fast_erf
        fast_tanh nn.dropout
    """,
    BROADCAST: """
        add bitwise_and bitwise_or bitwise_xor divide equal floor_divide floor_mod greater greater_equal
        left_shift less less_equal logical_and logical_or logical_xor maximum minimum mod multiply nn.bias_add
        nn.prelu not_equal power right_shift subtract trunc_divide trunc_mod where broadcast_to
        broadcast_to_like cast_like
    """,
    INJECTIVE: """
        concatenate expand_dims full full_like gather gather_nd image.resize1d image.resize2d image.resize3d
        layout_transform meshgrid nn.batch_flatten nn.depth_to_space nn.mirror_pad nn.pad nn.space_to_depth
        nn.upsampling nn.upsampling3d ones repeat reshape reshape_like reverse reverse_sequence slice_like
        split squeeze stack strided_slice take tile transpose zeros one_hot
    """,
    REDUCTION: "all any argmax argmin max mean min prod sum variance",
    FUSABLE: """
        nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.adaptive_max_pool1d
        nn.adaptive_max_pool2d nn.adaptive_max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d
        nn.batch_matmul nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d
        nn.conv3d_transpose nn.deformable_conv2d nn.dense nn.global_avg_pool2d nn.global_max_pool2d nn.matmul
        nn.max_pool1d nn.max_pool2d nn.max_pool3d
    """,
}

_KINDS = {name: kind for kind, names in _MEMBERS.items() for name in names.split()}


def operator_kind(name: str) -> int:
    """The kind of an operator, OPAQUE for those that are of no other."""
    return _KINDS.get(name, OPAQUE)
