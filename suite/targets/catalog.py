"""The targets there are, one frozen entry each. Adding a member of a known family is adding one entry."""

from pathlib import Path

from suite.errors import UserError
from suite.targets.base import TargetSpec

_TINY = Path(__file__).parent / "tiny"

CATALOG = {
    spec.name: spec
    for spec in [
        TargetSpec(
            name="tiny-sdar-b16",
            source=str(_TINY / "tiny-sdar-b16"),
            native_class="Qwen3ForCausalLM",
            mask_id=3,
            stop_ids=frozenset({0, 2}),
            pad_id=0,
            vocab_size=832,
            block_size=16,
            context_limit=512,
            excluded_ids=(3,),
            tiny=True,
            note="a look-alike of SDAR trained by this project on its four tiny tasks",
        ),
    ]
}


def spec(name: str) -> TargetSpec:
    """Raises UserError naming the known targets."""
    if name not in CATALOG:
        raise UserError(f"unknown target {name!r}; known: {', '.join(CATALOG)}")
    return CATALOG[name]
