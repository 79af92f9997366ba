"""The decoder as a model of lm-evaluation-harness, for its command line and its `simple_evaluate`.

lm-eval finds no models outside its own package, so `spotbench lm-eval` imports this module, which registers the model
`spotbench`, and then is lm-eval's command:

    spotbench lm-eval --model spotbench --model_args target=tiny-sdar-b16,drafter=best-first,rows=8 \\
        --tasks tiny-gsm --apply_chat_template

In a program, import this module before `simple_evaluate(model="spotbench", ...)`.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CacheHook
from lm_eval.api.registry import register_model
from tqdm import tqdm

import drafters
from drafters import Drafter
from suite import machine
from suite.decoding.decode import decode
from suite.decoding.noise import request_seed
from suite.decoding.policy import Commit, ContextPolicy, Policy
from suite.decoding.rules import parse_rule
from suite.errors import UserError
from suite.targets import catalog, checkpoint, load
from suite.targets.native import Layout
from tasks import answers, harness

ROOM = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""What lm-eval calls the room for an answer."""
KNOWN = {*ROOM, "until", "do_sample", "temperature", "top_k", "top_p"}


@register_model("spotbench")
class Spotbench(LM):  # type: ignore[misc]
    """`model_args` are the axes of a grid; room, stops and sampling are the task's, or lm-eval's `--gen_kwargs`.

    An answer is that of `spotbench run`, to the last character, and so is its score.
    Raises UserError on arguments that have no effect or contradict each other, and on a prompt that cannot be answered:
    lm-eval would take anything returned for it as an answer.
    """

    def __init__(
        self,
        target: str,
        drafter: str = "none",
        rows: int = 1,
        rule: str = "exact",
        seed: int = 0,
        source: str = "",
        context: ContextPolicy | None = None,
        commit: Commit | None = None,
        layout: Layout = "batch",
        dtype: str = "",
        device: str | None = None,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        if str(batch_size) != "1" or max_batch_size:
            raise UserError("batch_size: prompts are decoded one by one, so that their times and noise are their own")
        if (drafter == "none") != (rows == 1):
            raise UserError(f"drafter={drafter},rows={rows}: 1 row without a drafter, 2 or more with one")
        spec = catalog.spec(target, source)
        device = device if device and torch.cuda.is_available() else "cpu"  # "cuda:0" is what lm-eval says unasked
        self._target = load.load(spec, device, dtype, layout, context)
        self._name = drafters.known(drafter)
        self._rule, self._rows, self._seed = parse_rule(rule), rows, seed
        self._choices: dict[str, Any] = {"commit": commit} if commit else {}
        self._drafters: dict[Policy, Drafter] = {}
        self._templated = False
        self._finished: Counter[str] = Counter()
        self._passes = 0

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """One answer for each request, in their order."""
        if not self._templated:
            raise UserError(
                "--apply_chat_template is missing: the targets are chat models, and it is not added silently"
            )
        shown = tqdm(requests, desc=f"{self._target.spec.name}, {self._name}", disable=disable_tqdm)
        return [self._answer(*request.args) for request in shown]

    def _answer(self, prompt: str, options: dict[str, Any]) -> str:
        policy = self._policy(options)
        ids, until = self._target.encode(prompt), options.get("until") or []
        if fault := self._target.spec.overflow(len(ids), policy.max_new_tokens):
            raise UserError(f"a prompt cannot be answered: {fault}; it begins {prompt[:60]!r}")
        drafter, seed = self._drafter(policy), request_seed(self._seed, prompt)
        future = (
            decode(self._target, ids, policy, drafters.make("none"), seed=seed).visits if drafter.needs_future else ()
        )
        done = decode(self._target, ids, policy, drafter, self._rows, seed, future)
        said = answers.read(self._target, prompt, done.tokens, [until] if isinstance(until, str) else until)
        self._finished[said.finish] += 1
        self._passes += len(done.passes) + done.commit_passes
        return said.text

    def _drafter(self, policy: Policy) -> Drafter:
        if policy not in self._drafters:
            self._drafters[policy] = drafters.make(self._name)
            self._drafters[policy].attach(self._target.spec.name, policy)
        return self._drafters[policy]

    def _policy(self, options: dict[str, Any]) -> Policy:
        if unknown := options.keys() - KNOWN:
            raise UserError(f"gen_kwargs: {min(unknown)} has no effect here; there are {', '.join(sorted(KNOWN))}")
        rooms = {name: int(options[name]) for name in ROOM if options.get(name) is not None}
        if len(set(rooms.values())) != 1:
            found = ", ".join(f"{name}={room}" for name, room in rooms.items()) or "none of them"
            raise UserError(f"gen_kwargs: {found}; say once how many tokens an answer may have: max_gen_toks=256")
        temperature = float(options.get("temperature", 0.0))
        sampled = options.get("do_sample", temperature > 0)
        if bool(sampled) != (temperature > 0):
            raise UserError(
                f"gen_kwargs: do_sample={sampled} contradicts temperature={temperature:g}; change one of them"
            )
        return self._target.spec.policy(
            rooms.popitem()[1],
            rule=self._rule,
            temperature=temperature,
            top_k=int(options.get("top_k", 0)),
            top_p=float(options.get("top_p", 1.0)),
            **self._choices,
        )

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        if not add_generation_prompt:
            raise UserError("gen_prefix: the chat template alone opens the answer here; take a task without that key")
        self._templated = True
        return self._target.chat(chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str:
        if isinstance(chat_template, str):
            raise UserError(f"chat template {chat_template!r}: targets have one; say --apply_chat_template alone")
        return "the target's own"

    @property
    def tokenizer_name(self) -> str:
        """Of the cache of requests, which hold the chat template."""
        return f"{self._target.spec.name}.{checkpoint.weights_hash(self._target.spec)}"

    def set_cache_hook(self, cache_hook: CacheHook) -> None:
        """lm-eval's cache knows an answer by its prompt alone, and so would give that of another target or drafter."""
        if cache_hook.dbdict is not None:
            raise UserError("use_cache mixes up the answers of different models; `spotbench run` resumes safely")
        super().set_cache_hook(cache_hook)

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval writes into its results: what made the answers, how they ended, and the passes they took."""
        spec = self._target.spec
        return {
            "target": spec.name,
            "tiny": spec.tiny,
            "weights": checkpoint.weights_hash(spec),
            "block_size": spec.block_size,
            "context": self._target.context_policy,
            "dtype": self._target.dtype,
            "layout": self._target.layout,
            "drafter": self._name,
            "rows": self._rows,
            "rule": str(self._rule),
            "seed": self._seed,
            "finish": dict(self._finished),
            "passes": self._passes,
            "code": machine.code_hash(),
        }

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise UserError("a task of likelihoods: a diffusion decoder only answers; take a task with generate_until")

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        raise UserError("a task of likelihoods: a diffusion decoder only answers; take a task with generate_until")


def main(arguments: Sequence[str]) -> None:
    """lm-eval's command. Unless told of another folder it knows our tasks, and takes ours where both have a name."""
    from lm_eval.__main__ import cli_evaluate

    ours = [] if any(one.startswith("--include_path") for one in arguments) else ["--include_path", str(harness.HOME)]
    sys.argv = ["spotbench lm-eval", *arguments, *(ours if "--tasks" in arguments else [])]
    cli_evaluate()
