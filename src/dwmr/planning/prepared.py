"""What planning has learned about a run, kept in RUN/planning, so that later calls need neither data nor training.

Each part is one safetensors file. Its metadata names the checkpoint it was made for, and a part of another checkpoint
is refused.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from dwmr.data.transitions import Splits
from dwmr.errors import InputError
from dwmr.files import atomic_write_bytes
from dwmr.models.run_folder import checkpoint_digest
from dwmr.models.world_model import WorldModel
from dwmr.planning.agent import Agent, prepare_agent
from dwmr.planning.applicability import Applicability, likelihood_network
from dwmr.planning.dynamics import model_dynamics
from dwmr.planning.heuristics import HeuristicNetwork
from dwmr.planning.packing import pack
from dwmr.planning.painting import decoder_network, fit_decoder, with_decoder
from dwmr.worlds.digits import SOURCES

AGENT, PAINTER, HEURISTIC = (f"planning/{part}.safetensors" for part in ("agent", "painter", "heuristic"))
OLD_HEURISTIC = "heuristic.safetensors"  # of version 0.1, which did not name the checkpoint
PREPARE_AGAIN = "remove RUN/planning, and the next plan prepares the run again"
TRAIN_AGAIN = "train it again with: dwmr train-heuristic RUN --overwrite, or delete the file"

log = logging.getLogger("dwmr")
Network = TypeVar("Network", bound=nn.Module)


def prepare_run(
    run: str | Path, model: WorldModel, splits: Splits, *, decoder: str = "generic", seed: int = 0
) -> Agent:
    """Learn from data what planning needs, and store it in the run folder.

    ``decoder`` names the network that draws imagined codes, for models without a decoder.
    """
    log.info("preparing %s for planning; this is done once", run)
    train = splits.train
    agent = prepare_agent(model.encode, model.predict, train, splits.val, seed=seed)
    assert agent.possible is not None
    if train.about.get("digits") in SOURCES:
        agent.about["digits"] = train.about["digits"]
    if train.action_names is not None:
        agent.about["action_names"] = list(train.action_names)
    if model.decoder is None:
        save_part(run, PAINTER, fit_decoder(model, decoder, train, seed), {"decoder": decoder, "seed": seed})
    # Written last: a run folder with this file is wholly prepared.
    learned = {name: getattr(agent, name) for name in ("radius", "flips", "about")}
    info = {"threshold": agent.possible.threshold, **learned, "seed": seed}
    save_part(run, AGENT, agent.possible.network.state_dict(), info)
    return replace(agent, dynamics=model_dynamics(model, agent.possible))


def load_agent(run: str | Path, model: WorldModel) -> Agent | None:
    """The agent of a run that was prepared for planning, without a learned heuristic; None if it was not prepared."""
    part = load_part(run, AGENT, PREPARE_AGAIN)
    if part is None:
        return None
    tensors, info = part
    network = _load(likelihood_network(model.bits, model.n_actions), tensors, model)
    possible = Applicability(network, info["threshold"])
    learned = {name: info[name] for name in ("radius", "flips", "about")}
    dynamics = model_dynamics(model, possible)
    return Agent(lambda images: pack(model.encode(images)), dynamics, model.bits, possible=possible, **learned)


def load_painter(run: str | Path, model: WorldModel) -> WorldModel:
    """What draws the imagined codes of a prepared run: the model, or the model with a decoder fitted afterwards."""
    if model.decoder is not None:
        return model
    part = load_part(run, PAINTER, PREPARE_AGAIN)
    if part is None:
        raise InputError(f"{Path(run) / PAINTER} is missing; {PREPARE_AGAIN}")
    tensors, info = part
    mean, std = tensors.pop("mean"), tensors.pop("std")
    return with_decoder(model, _load(decoder_network(model, info["decoder"]), tensors, model), mean, std)


def load_heuristic(run: str | Path, model: WorldModel) -> HeuristicNetwork | None:
    """The learned heuristic of a run; None if none was trained."""
    part = load_part(run, HEURISTIC, TRAIN_AGAIN) or load_part(run, OLD_HEURISTIC, TRAIN_AGAIN)
    if part is None:
        return None
    tensors, info = part
    return _load(HeuristicNetwork(model.bits, info["width"]), tensors, model)


def save_part(run: str | Path, name: str, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> Path:
    """Write a part into the run folder, whole or not at all."""
    on_cpu = {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}
    path, described = Path(run) / name, json.dumps({**info, "checkpoint": checkpoint_digest(run)})
    atomic_write_bytes(path, to_safetensors(on_cpu, {"info": described}))
    return path


def load_part(run: str | Path, name: str, remedy: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """A part's tensors and metadata; None if there is no such part.

    Raises:
        InputError: the part is damaged, or was made for another checkpoint; ``remedy`` says what to do.
    """
    path = Path(run) / name
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            info = json.loads((file.metadata() or {})["info"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged ({' '.join(str(error).split())}); {remedy}") from error
    digest = checkpoint_digest(run)
    if info.get("checkpoint", digest) != digest:
        raise InputError(f"{path} was made for another checkpoint of this run; {remedy}")
    return tensors, info


def _load(network: Network, tensors: dict[str, Tensor], model: WorldModel) -> Network:
    """Put weights into a network that is only used, never trained."""
    network.load_state_dict(tensors)
    return network.to(model.device).eval().requires_grad_(False)
