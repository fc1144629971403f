"""Training: owns the epochs, the schedules and the run folders; knows no loss and no algorithm."""

import dataclasses
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dwmr.config import Config
from dwmr.data.batches import continuations
from dwmr.data.transitions import Transitions
from dwmr.errors import InputError, TrainingDiverged, unknown
from dwmr.files import locked
from dwmr.models import world_model
from dwmr.models.encoders import CELLS
from dwmr.models.run_folder import VERSIONS, RunInfo, create_run, read_info, read_run, reopen_run, write_info
from dwmr.models.verdict import Verdict, judge
from dwmr.models.world_model import WorldModel
from dwmr.presets import PRESETS
from dwmr.training.auto import (
    EXACT_ENOUGH,
    MIN_MINIBATCHES,
    Recipe,
    another_round,
    ends_by_measure,
    first_round,
    hold_out,
    recipes,
)
from dwmr.training.coded import GivenCodes, coded
from dwmr.training.learner import RunState
from dwmr.training.objectives import OBJECTIVES, Objective, objective_of, shared_objective
from dwmr.training.run_group import Job, Member, train_group
from dwmr.training.schemes import SCHEMES
from dwmr.training.slow_features import init_from_slow_features
from dwmr.training.stacking import own_memory

log = logging.getLogger("dwmr")

Network = nn.Module | Callable[[], nn.Module]


@dataclass(frozen=True)
class Run:
    """A finished training: the model, what it was made from, and one record per epoch."""

    model: WorldModel
    config: Config
    seed: int
    path: Path | None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    verdict: Verdict | None = None

    def __repr__(self) -> str:
        where = "" if self.path is None else f", path={str(self.path)!r}"
        return f"Run({self.config.name!r}, seed={self.seed}, epochs={len(self.metrics)}{where})"


def train(config: Config, *, train: Transitions, out: str | Path | None = None, seed: int = 0, **options: Any) -> Run:
    """Train a world model.

    Args:
        config: a preset, or any other configuration.
        train: the transitions to learn from.
        out: the run folder to write; None writes nothing.
        seed: of the weights and of all that is random while training.
        **options: ``val``, ``device``, ``resume``, ``encoder``, ``predictor``, ``decoder``, ``objective``, ``fast`` and
            ``progress``, as in `train_many`.

    Raises:
        InputError: the data, the configuration or the folder does not fit; nothing was changed.
        TrainingDiverged: a loss term became NaN or infinite; the last good checkpoint is kept.
    """
    (result,) = train_many(config, train=train, seeds=[seed], outs=[out], **options)
    if isinstance(result, TrainingDiverged):
        raise result
    return result


def train_many(
    config: Config | Sequence[Config],
    *,
    train: Transitions,
    seeds: Sequence[int],
    val: Transitions | None = None,
    outs: Sequence[str | Path | None] | None = None,
    device: str = "auto",
    resume: bool = False,
    encoder: Network | None = None,
    predictor: Network | None = None,
    decoder: Network | None = None,
    objective: Objective | None = None,
    fast: str = "auto",
    progress: bool | None = None,
) -> list[Run | TrainingDiverged]:
    """Train several runs on the same data: one configuration, or one for each seed. On a GPU they are one program.

    Configurations may differ in hyperparameters, schedules and kind of two-step scheme, not in networks, objective or
    length. Each result is what `train` would give; a run that diverges is reported in its place and harms no other.

    Your own networks return logits: ``encoder(images) -> (N, K)``, ``predictor(codes, one_hot_actions) -> (N, K)``; a
    decoder returns normalised images. Each is a module, or a function that makes one.

    Args:
        val: transitions for label-free figures after each epoch. Without it, ``auto`` holds out the end of ``train``.
        outs: a run folder for each seed, or None to write nothing.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        resume: continue from a folder's last checkpoint, if there is one.
        encoder, predictor, decoder: your own networks instead of those of ``config``.
        objective: your own loss terms instead of those of ``config.model``.
        fast: ``"auto"`` uses accelerated kernels and recorded updates, ``"off"`` the reference.
        progress: show a progress bar; None: if standard error is a terminal.
    """
    configs = [config] * len(seeds) if isinstance(config, Config) else list(config)
    folders = [None if out is None else Path(out) for out in (outs if outs is not None else [None] * len(seeds))]
    if not (len(configs) == len(seeds) == len(folders)) or not configs:
        raise InputError(f"got {len(configs)} configurations and {len(folders)} folders for {len(seeds)} seeds")
    if len({each.structure() for each in configs}) > 1:
        raise InputError("runs trained together must share networks, objective, scheme, epochs and batch size")
    where = world_model.resolve_device(device)
    given = {"encoder": encoder, "predictor": predictor, "decoder": decoder}
    own = {role: network for role, network in given.items() if network is not None}
    in_rounds = ends_by_measure(configs[0])
    if configs[0].model == "auto":
        if own or objective is not None:
            raise InputError("auto chooses networks and objective itself; use another preset with your own")
        train, val = (train, val) if val is not None else hold_out(train)
        most = max(2, len(train) // MIN_MINIBATCHES)
        configs = [each.replace(batch_size=min(each.batch_size, most)) for each in configs]
    configs = [each.replace(**dict.fromkeys(own, "custom")) for each in configs]
    check_choices(configs[0], objective, fast=fast)
    if len(seeds) > 1 and any(isinstance(network, nn.Module) for network in own.values()):
        raise InputError("several seeds need a new network each: pass a function or a class that makes it")
    taken = [folder for folder in folders if folder is not None and folder.exists()]
    if taken and not resume:
        raise FileExistsError(f"{taken[0]} exists already; resume it, or choose another folder")
    named = [folder.resolve() for folder in folders if folder is not None]
    if len(named) > len(set(named)):
        raise InputError("every run needs a folder of its own, got the same one twice")
    _check_data(configs[0], train, val)
    choices = recipes(configs[0], train) if configs[0].model == "auto" and len(taken) < len(folders) else []
    recipe: Recipe | None = None
    finished = [folder for folder in taken if read_info(folder).verdict is not None]
    if configs[0].model == "auto" and taken:
        chosen = {folder: _chosen_before(folder, configs[0]) for folder in taken}
        if len({each.replace(epochs=1).structure() for each in chosen.values()}) > 1:
            raise InputError(f"the runs in {' and '.join(map(str, taken))} have different networks; resume them alone")
        first = first_round(chosen[taken[0]], train) if in_rounds else chosen[taken[0]]
        configs = [first if folder is None else chosen.get(folder, first) for folder in folders]
        recipe = next((each for each in choices if each.config.cells == configs[0].cells), None)
    elif choices and val is not None:
        recipe, config = _choose(choices, val, seeds[0], where, fast, progress)
        check_choices(config)
        configs = [config] * len(configs)

    cells = CELLS[configs[0].encoder](train.image_shape) if configs[0].by_cell else 1
    family = objective or shared_objective(configs, cells)
    job = Job(family, train, val, where, fast == "auto", progress)
    parts = (*own, *(["objective"] if objective else []))
    with ExitStack() as locks:
        for folder in taken:
            locks.enter_context(locked(folder))
        members = _make_members(job, configs, [operator.index(seed) for seed in seeds], folders, own, parts, recipe)
        for member in members:
            if member.folder is not None and member.folder not in taken:
                locks.enter_context(locked(member.folder))
        # Runs that were stopped after the same epoch go on together on a GPU; a CPU trains one after the other, as does
        # the reference.
        waiting = members
        while waiting:
            for done, end in sorted({(member.done, member.config.epochs) for member in waiting}):
                group = [member for member in waiting if (member.done, member.config.epochs) == (done, end)]
                for some in [group] if where.type == "cuda" and job.fast else [[member] for member in group]:
                    if done < end:
                        train_group(job, some)
            waiting = [
                each for each in waiting if in_rounds and each.folder not in finished and _add_round(each, train)
            ]
        for member in members:
            if val is not None and member.config.benchmark == "auto" and len(member.metrics) == member.config.epochs:
                model = member.state.model
                model.verdict = judge(
                    model.encode, model.predict, val, train=train, decode=model.decode if model.decoder else None
                )
                if member.folder is not None:
                    described = dataclasses.replace(read_info(member.folder), verdict=model.verdict.to_dict())
                    write_info(member.folder, described)
    results: list[Run | TrainingDiverged] = []
    for member in members:
        model = member.state.model
        model.eval().zero_grad(set_to_none=True)  # gradients would keep a recorded update's memory
        if len(members) > 1:
            own_memory(model)
        run = Run(model, member.config, member.seed, member.folder, member.metrics, model.verdict)
        results.append(member.failure or run)
    return results


def _add_round(member: Member, train: Transitions) -> bool:
    """Make a run of ``auto`` that has come to its end longer if it gained enough; return whether it did."""
    member.done = len(member.metrics)
    longer = None if member.failure else another_round(member.config, member.metrics, train)
    if longer is None:
        return False
    log.info("seed %d: another round of training, as the last one was worth it", member.seed)
    member.config = longer
    if member.folder is not None:
        write_info(member.folder, dataclasses.replace(read_info(member.folder), config=longer))
    return True


def _chosen_before(folder: Path, asked: Config) -> Config:
    """The configuration that ``auto`` chose for a run which is to be continued."""
    stored = read_info(folder).config
    if stored.benchmark != "auto":
        raise InputError(f"{folder} is a run of {stored.name!r}, which auto cannot resume; choose another folder")
    known, usual = stored.flat(), PRESETS["auto"].flat()
    for name, value in asked.flat().items():
        if value not in (usual[name], known[name]):
            found = f"{folder} was trained with {name}={known[name]}, not {value}"
            raise InputError(f"{found}; leave {name} out to continue it, or choose another folder")
    return stored


def _choose(
    choices: list[Recipe], val: Transitions, seed: int, device: torch.device, fast: str, progress: bool | None
) -> tuple[Recipe, Config]:
    """The recipe to follow, and its configuration with the predictor to train: of those that suit, the simplest that is
    exact on held-out transitions after a short training, else the most exact."""
    if len(choices) == 1 and len(choices[0].predictors()) == 1:
        return choices[0], choices[0].config.replace(predictor=choices[0].predictors()[0])
    best, chosen = -1.0, (choices[0], choices[0].config)
    for recipe in choices:
        config, train_on = recipe.config, recipe.train
        model = world_model.build_model(config, train_on.image_shape, train_on.n_actions, decoder=False, seed=seed)
        recipe.start(model.to(device), seed, progress)
        learned, held_out = coded(model, train_on), coded(model, val)
        for name in recipe.predictors():
            run = train(
                recipe.trial(name, len(learned)),
                train=learned,
                val=held_out,
                device=str(device),
                fast=fast,
                progress=progress,
                encoder=GivenCodes(),
                objective=dataclasses.replace(OBJECTIVES[config.model], decoder=False),
            )
            exact = run.metrics[-1]["val"]["exact_next"]
            log.info("auto: the predictor %r has %.2f%% of the next codes exact after a short training", name, exact)
            if exact > best:
                best, chosen = exact, (recipe, config.replace(predictor=name))
            if exact >= EXACT_ENOUGH:
                return chosen
    return chosen


def fit(
    transitions: Transitions,
    out: str | Path | None = None,
    *,
    val: Transitions | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool | None = None,
) -> WorldModel:
    """Learn a world model by the recipe for any world, ``auto``. Its ``verdict`` says how far it can be used.

    ``val`` holds transitions for the verdict; without it the last tenth is held out, more of few, in whole episodes.
    The other arguments are those of `train`.

    Example:
        >>> model = dwmr.fit(dwmr.load_transitions("mine.npz"), out="runs/mine")
        >>> print(model.verdict)
        exact: 99.98% of the next codes are predicted exactly, and 0.00% of the frames share a code with another
    """
    config = PRESETS["auto"]
    return train(config, train=transitions, val=val, out=out, seed=seed, device=device, progress=progress).model


def _make_members(
    job: Job,
    configs: Sequence[Config],
    seeds: Sequence[int],
    folders: Sequence[Path | None],
    own: Mapping[str, Network],
    own_parts: tuple[str, ...],
    recipe: Recipe | None = None,
) -> list[Member]:
    """The runs as they begin or go on. Their folders are written only when none of them can be refused any more."""
    train, decoder = job.train, job.objective.decoder
    statistics = world_model.image_statistics(train.obs) if configs[0].standardize else None
    sizes, data, made = (train.image_shape, train.n_actions), train.fingerprint() if any(folders) else "", []
    for config, seed, folder in zip(configs, seeds, folders, strict=True):
        going_on = folder is not None and folder.exists()
        model = world_model.build_model(config, *sizes, decoder=decoder, seed=seed, modules=own)
        config = _with_bits_of(model, config)
        world_model.check_outputs(model, own)
        if statistics is not None:
            model.mean.copy_(statistics[0])
            model.std.copy_(statistics[1])
        model.to(job.device)
        if config.init_from_slow_features and not going_on:
            init_from_slow_features(model, train)
        if recipe is not None and not going_on:
            recipe.start(model, seed, job.progress)
        member = Member(config, seed, RunState(model, torch.zeros((), device=job.device)), folder)
        info = RunInfo(
            config, seed, *sizes, decoder, own_parts, data, VERSIONS, world=str(train.about.get("benchmark", ""))
        )
        if folder is not None and going_on:
            tensors, member.done, member.metrics = read_run(folder, info)
            member.state.load_tensors(tensors, folder)
        made.append((member, info, going_on))
    for member, info, going_on in made:
        if member.folder is not None and going_on:
            reopen_run(member.folder, info, member.metrics)
        elif member.folder is not None:
            create_run(member.folder, info, member.state.tensors())
    return [member for member, *_ in made]


def check_choices(config: Config, objective: Objective | None = None, *, fast: str = "auto") -> None:
    """Refuse what can be refused before any data is there: unknown names, a scheme that does not fit the model."""
    if fast not in ("auto", "off"):
        raise InputError(f"fast must be 'auto' or 'off', got {fast!r}")
    if config.model == "auto":
        return  # its choices come from the data
    if objective is None and config.model not in OBJECTIVES:
        raise unknown("model", config.model, OBJECTIVES)
    if config.scheme not in SCHEMES:
        raise unknown("scheme", config.scheme, SCHEMES)
    for role in ("encoder", "predictor", "decoder"):
        if getattr(config, role) != "custom":
            world_model.check_network(role, getattr(config, role))
    if config.by_cell and config.encoder not in CELLS:
        raise InputError(f"by_cell needs an encoder with a grid ({', '.join(CELLS)}), not {config.encoder!r}")
    family = objective or objective_of(config)
    if (family.scheme or config.scheme) != config.scheme:
        raise InputError(f"{config.model} is trained with the scheme {family.scheme!r}, not {config.scheme!r}")
    if config.steps > 1 and "later" not in family.terms:
        raise InputError("steps above 1 needs an objective with the term 'later'; objectives.objective_of adds it")
    if config.scheme == "joint" and family.noise:
        raise InputError("the scheme 'joint' is for DeepCubeAI and has no noise; choose another scheme for this model")


def _with_bits_of(model: WorldModel, config: Config) -> Config:
    """The configuration with as many bits as the model has, which the user's own encoder decides; refused if another
    number was asked for."""
    usual = PRESETS[config.name].bits if config.name in PRESETS else Config.bits
    if config.bits not in (model.bits, usual):
        found = f"bits={config.bits} was asked for, but your encoder returns {model.bits}"
        raise InputError(f"{found}; leave bits out, or make them equal")
    return config.replace(bits=model.bits)


def _check_data(config: Config, train: Transitions, val: Transitions | None) -> None:
    if config.two_views or config.steps > 1:
        continuations(train)  # refuses data without episodes
    if len(train) < config.batch_size:
        found = f"{len(train)} transitions do not fill one minibatch of {config.batch_size}"
        raise InputError(f"{found}; give more data or a smaller batch_size")
    if val is not None and (val.image_shape, val.n_actions) != (train.image_shape, train.n_actions):
        found = f"validation images {val.image_shape} with {val.n_actions} actions"
        raise InputError(f"{found} do not match training images {train.image_shape} with {train.n_actions}")
