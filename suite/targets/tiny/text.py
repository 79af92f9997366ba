"""The tiny targets' tokenizer and training text: byte-level BPE, digits apart, ChatML."""

import random
from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tasks import tiny

PAD, START, END, MASK = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORD = r"\b(?:user|assistant)\n| ?[A-Za-z_]+| ?[0-9]| ?[^\sA-Za-z_0-9]+|\n *|\s+"


def build_tokenizer(vocab_size: int, seed: int) -> PreTrainedTokenizerFast:
    """Train the tokenizer on the tasks' train split; the same seed gives the same file."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, START, END, MASK],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    problems = [p for task in tiny.GENERATORS for p in tiny.unique(task, "train", seed, 3000)]
    texts = [text for p in problems for text in ("user\n", p.prompt, "assistant\n", p.answer)]
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        mask_token=MASK,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def samples(
    tokenizer: PreTrainedTokenizerFast, block: int, seed: int, blocks_from: str = "sequence"
) -> Iterator[tuple[list[int], int]]:
    """Endless (ids, prompt length): a chat turn, its answer and its end, padded to whole blocks.

    Blocks are counted from the start of the `sequence`, or of the `answer`.
    """
    rng = random.Random(seed)
    streams = [tiny.stream(task, "train", seed) for task in tiny.GENERATORS]
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    while True:
        problem = next(rng.choice(streams))
        message = [{"role": "user", "content": problem.prompt}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        start: list[int] = tokenizer.encode(prompt, add_special_tokens=False)
        ids = [*start, *tokenizer.encode(problem.answer, add_special_tokens=False), end]
        origin = len(start) if blocks_from == "answer" else 0
        yield ids + [pad] * (-(len(ids) - origin) % block), len(start)
