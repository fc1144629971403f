"""Codes packed into words: bool (N, K) and int64 (N, W) with W = ⌈K / 64⌉, bit k in bit k mod 64 of word k // 64.

Unused bits are zero, so two codes are equal exactly when their words are.
"""

import torch
from torch import Tensor

WORD = 64
_ODD_BITS = 0x5555555555555555
_ODD_PAIRS = 0x3333333333333333
_LOW_NIBBLES = 0x0F0F0F0F0F0F0F0F
_BYTE_SUM = 0x0101010101010101
_MULTIPLIERS = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # odd, well mixed


def pack(codes: Tensor) -> Tensor:
    """bool (…, K) to int64 (…, W)."""
    spare = -codes.shape[-1] % WORD
    if spare:
        codes = torch.nn.functional.pad(codes, (0, spare))
    octets = codes.view(torch.uint8)
    packed = octets[..., 0::8].clone(memory_format=torch.contiguous_format)
    for place in range(1, 8):
        packed |= octets[..., place::8] << place
    return packed.view(torch.int64)


def unpack(words: Tensor, bits: int) -> Tensor:
    """int64 (…, W) to bool (…, K)."""
    octets = words.contiguous().view(torch.uint8)
    places = 1 << torch.arange(8, dtype=torch.uint8, device=words.device)
    return (octets.unsqueeze(-1) & places).ne(0).flatten(-2)[..., :bits]


def hamming(words: Tensor, other: Tensor) -> Tensor:
    """The number of bits, int64 (…,), in which codes (…, W) differ."""
    single = words ^ other
    pairs = single - ((single >> 1) & _ODD_BITS)  # each holds how many of its two bits are on
    nibbles = (pairs & _ODD_PAIRS) + ((pairs >> 2) & _ODD_PAIRS)
    octets = (nibbles + (nibbles >> 4)) & _LOW_NIBBLES
    return ((octets * _BYTE_SUM) >> 56).sum(-1)


def hash_codes(words: Tensor) -> Tensor:
    """A hash, int64 (N,), of each code (N, W)."""
    mixed = torch.zeros_like(words[:, 0])
    for word in words.unbind(1):
        mixed = (mixed ^ word) * _MULTIPLIERS[0]
        mixed = (mixed ^ ((mixed >> 29) & 0x7FFFFFFFF)) * _MULTIPLIERS[1]
    return (mixed ^ ((mixed >> 32) & 0xFFFFFFFF)) * _MULTIPLIERS[2] >> 17
