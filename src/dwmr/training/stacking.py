"""Several networks of one architecture as one function with a leading run axis, and Adam for all of them.

The runs' own parameters and buffers become views of shared tensors. Whatever changes the stack changes the runs, so
nothing is ever copied back: each run can be evaluated or saved at any moment. Networks that leave get their
`own_memory`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8  # torch.optim.Adam's defaults


class Stack:
    """S networks of one architecture; called on inputs (S, N, …), it returns outputs (S, N, …).

    Each network's own ``forward`` is used, through `torch.vmap`, so this serves any module that `torch.vmap` accepts.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self.networks = list(networks)
        first = self.networks[0]
        self.names = [name for name, _ in first.named_parameters()]
        own = [[network.get_parameter(name) for name in self.names] for network in self.networks]
        self.flat = _share(own)  # (S, P)
        self.parameters = {
            name: part.requires_grad_(parameter.requires_grad)
            for name, part, parameter in zip(self.names, cut(self.flat, own[0]), own[0], strict=True)
        }
        self.buffers = {
            name: cut(_share([[network.get_buffer(name)] for network in self.networks]), [buffer])[0]
            for name, buffer in first.named_buffers()
        }

    def __call__(self, *inputs: Tensor) -> Tensor:
        return torch.vmap(self._call, randomness="different")(self.parameters, self.buffers, *inputs)

    def _call(self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], *inputs: Tensor) -> Tensor:
        state = {**parameters, **buffers}
        output = functional_call(self.networks[0], state, inputs)
        for name, buffer in buffers.items():
            if state[name] is not buffer:
                raise RuntimeError(f"the buffer {name!r} is replaced by a new tensor; change it in place")
        return output


def cut(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """A flat tensor (S, P) as views of the shapes (S, …) of one run's tensors."""
    parts = flat.split([each.numel() for each in like], dim=1)
    return [
        part.unflatten(1, each.shape) if each.ndim else part.squeeze(1) for part, each in zip(parts, like, strict=True)
    ]


def _share(tensors: Sequence[Sequence[Tensor]]) -> Tensor:
    """One tensor (S, P) that from now on holds the tensors of each of S runs."""
    if not tensors[0]:
        return torch.empty(len(tensors), 0)
    if len({each.dtype for run in tensors for each in run}) > 1:
        raise RuntimeError("the parameters of a network are of several types of number")
    flat = torch.stack([torch.cat([each.detach().reshape(-1) for each in run]) for run in tensors])
    for run, row in zip(tensors, flat, strict=True):
        for each, part in zip(run, row.split([each.numel() for each in run]), strict=True):
            each.data = part.view(each.shape)
    return flat


def own_memory(network: nn.Module) -> None:
    """Take a network out of the tensors that it shares with others: a saved or copied view would bring all of them."""
    for each in (*network.parameters(), *network.buffers()):
        each.data = each.data.clone()


class StackedAdam:
    """`torch.optim.Adam` for the parameters of stacks, each run with its own learning rate (S,).

    The runs' own optimizers see the same moments, so that they can be saved, and go on alone. ``optimizers`` holds one
    of each run, over the parameters of ``stacks`` in their order.
    """

    def __init__(self, stacks: Sequence[Stack], optimizers: Sequence[torch.optim.Adam], lr: Tensor) -> None:
        self.stacks, self.lr = list(stacks), lr
        self.parameters = [each for stack in self.stacks for each in stack.parameters.values()]
        own = [[p for group in optimizer.param_groups for p in group["params"]] for optimizer in optimizers]
        sizes = torch.tensor([each.numel() for each in own[0]])
        self.mean = torch.zeros(len(own), int(sizes.sum()), dtype=own[0][0].dtype, device=own[0][0].device)
        self.square = torch.zeros_like(self.mean)
        self.means, self.squares = cut(self.mean, own[0]), cut(self.square, own[0])
        device = self.mean.device
        self.steps = torch.zeros(len(own), len(sizes), dtype=torch.float32, device=device)  # each parameter counts
        self.owner = torch.arange(len(sizes)).repeat_interleave(sizes).to(device)  # whose step counts for each number
        for k, (optimizer, run) in enumerate(zip(optimizers, own, strict=True)):
            for place, parameter in enumerate(run):
                mean, square = self.means[place][k], self.squares[place][k]
                shared = {"step": self.steps[k, place], "exp_avg": mean, "exp_avg_sq": square}
                for name, value in optimizer.state.get(parameter, {}).items():
                    shared[name].copy_(value)
                optimizer.state[parameter] = shared

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        runs = len(self.mean)
        idle = [place for place, each in enumerate(self.parameters) if each.grad is None]  # left as they are
        kept = [(tensor, tensor.clone()) for place in idle for tensor in self._state_of(place)]
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in self.parameters]
        gradient = torch.cat([each.reshape(runs, -1) for each in gradients], dim=1)
        self.steps += 1
        steps = self.steps.double()  # powers of the betas near 1 need more than single precision
        size = (self.lr[:, None].double() / (1 - BETA_1**steps)).to(gradient.dtype)[:, self.owner]
        root = (1 - BETA_2**steps).sqrt().to(gradient.dtype)[:, self.owner]
        self.mean.lerp_(gradient, 1 - BETA_1)
        self.square.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
        change = size * self.mean / (self.square.sqrt() / root).add_(EPS)
        sizes = [stack.flat.shape[1] for stack in self.stacks]
        for stack, part in zip(self.stacks, change.split(sizes, dim=1), strict=True):
            stack.flat -= part
        for tensor, before in kept:
            tensor.copy_(before)

    def _state_of(self, place: int) -> tuple[Tensor, ...]:
        """What a step changes of a parameter, for all runs."""
        return self.parameters[place], self.means[place], self.squares[place], self.steps[:, place]
