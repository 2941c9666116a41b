"""The fast convolution against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pipelines.features.audio.winograd import WinogradBlock


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("size", [(12, 8), (24, 16), (2, 6)])
def test_it_is_as_exact_as_a_direct_convolution(size: tuple[int, int], pooled: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    convolution = nn.Conv2d(32, 48, 3, padding=1)
    nn.init.normal_(convolution.weight, generator=generator)
    nn.init.normal_(convolution.bias, generator=generator)
    maps = torch.randn(3, 32, *size, generator=generator)
    with torch.inference_mode():
        fast = WinogradBlock(convolution, pooled)(maps.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        direct = convolution(maps).relu()
        exact = convolution.double()(maps.double()).relu()
        if pooled:
            direct, exact = nn.functional.max_pool2d(direct, 2), nn.functional.max_pool2d(exact, 2)
    assert fast.shape == exact.shape
    error, usual = (fast - exact).abs().max(), (direct - exact).abs().max()
    assert error < 4 * usual and error < 1e-6 * exact.abs().max()


def test_a_row_does_not_depend_on_how_many_come_with_it() -> None:
    block = WinogradBlock(nn.Conv2d(64, 64, 3, padding=1), pooled=True)
    maps = torch.randn(4, 12, 8, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        together = block(maps)
        alone = torch.cat([block(each[None]) for each in maps])
    torch.testing.assert_close(alone, together, rtol=0, atol=1e-6)
