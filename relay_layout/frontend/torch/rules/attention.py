"""PyTorch's encoder layers as one operation, which its modules call for inference, by its others."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from relay_layout.frontend.torch.rules.rule import Rule, aten

_OF_KEYS = 1
"""The kind of masks that say for each word of each text whether it is left out."""


def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Attention of (texts, words, features) to itself and two layers, each of both added and normalized."""
    texts, words, _ = src.shape
    kept = None if mask is None else ~mask.to(torch.bool)
    if kept is not None and mask_type == _OF_KEYS:
        kept = kept[:, None, None, :]

    def normalized(value: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(value, (embed_dim,), weight, bias, eps)

    def attended(value: Tensor) -> Tensor:
        projected = functional.linear(value, qkv_weight, qkv_bias)
        heads = projected.view(texts, words, 3, num_heads, embed_dim // num_heads).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], kept)
        joined = found.transpose(1, 2).reshape(texts, words, embed_dim)
        return functional.linear(joined, proj_weight, proj_bias)

    def mapped(value: Tensor) -> Tensor:
        hidden = functional.linear(value, ffn_weight_1, ffn_bias_1)
        hidden = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attended(normalized(src, norm_weight_1, norm_bias_1))
        return src + mapped(normalized(src, norm_weight_2, norm_bias_2))
    src = normalized(src + attended(src), norm_weight_1, norm_bias_1)
    return normalized(src + mapped(src), norm_weight_2, norm_bias_2)


RULES: dict[Any, Rule] = {aten._transformer_encoder_layer_fwd.default: _encoder_layer}
"""By operation."""
