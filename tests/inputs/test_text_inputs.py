"""Texts and ids as batches: one length each, nothing padded, ids within the embedding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.errors import UsageError
from normdiag.inputs.batch import Batch
from normdiag.inputs.built_in_texts import LENGTH, TEXTS
from normdiag.inputs.model_inputs import build_inputs
from normdiag.inputs.text_inputs import token_texts
from normdiag.loading.factory import wrap_module
from normdiag.loading.interface import LoadedModel
from normdiag.options import InputOptions

TEMPLATE = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}<s>answer:"


@pytest.fixture(scope="session")
def llama(llama_dir: Path, tokenizer: transformers.PreTrainedTokenizerFast) -> LoadedModel:
    model = transformers.LlamaForCausalLM.from_pretrained(llama_dir)
    return replace(wrap_module(model), tokenizer=tokenizer)


def tiny(model: transformers.PreTrainedModel, tokenizer: object = None) -> LoadedModel:
    return replace(wrap_module(model.eval()), tokenizer=tokenizer)


def gpt2(**fields: int) -> transformers.GPT2Model:
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 400, "n_positions": 256}
    return transformers.GPT2Model(transformers.GPT2Config(**sizes | fields))


def runs(loaded: LoadedModel, batches: tuple[Batch, ...]) -> None:
    with torch.no_grad():
        for batch in batches:
            loaded.model(*batch.args, **batch.inputs)


class TestBuiltInTexts:
    def test_four_texts_of_one_length_are_one_batch(self, llama: LoadedModel) -> None:
        (batch,), probe, special = build_inputs(llama, InputOptions())
        assert batch.inputs["input_ids"].shape == (4, LENGTH)
        assert (probe.kind, probe.sequences, probe.tokens) == ("texts", 4, 4 * LENGTH)
        assert probe.texts == batch.texts == TEXTS
        assert probe.note is None
        assert special == ("<s>",)
        assert batch.rows == (0, 1, 2, 3)
        runs(llama, (batch,))

    def test_tokens_are_the_tokenizers_own_with_special_ones_kept(
        self, llama: LoadedModel, tokenizer: transformers.PreTrainedTokenizerFast
    ) -> None:
        (batch,), _, _ = build_inputs(llama, InputOptions())
        expected = [tokenizer(text)["input_ids"][:LENGTH] for text in TEXTS]
        assert batch.inputs["input_ids"].tolist() == expected
        assert batch.ids == tuple(map(tuple, expected))
        assert [row[0] for row in batch.special] == [True] * 4
        assert sum(map(sum, batch.special)) == 4

    def test_nothing_is_padding(self, llama: LoadedModel) -> None:
        (batch,), _, _ = build_inputs(llama, InputOptions())
        assert bool(batch.inputs["attention_mask"].all())

    def test_only_what_forward_takes_is_given(self, llama: LoadedModel) -> None:
        (batch,), _, _ = build_inputs(llama, InputOptions())
        assert set(batch.inputs) == {"input_ids", "attention_mask", "use_cache"}
        assert batch.inputs["use_cache"] is False

    def test_special_tokens_can_be_omitted(self, llama: LoadedModel) -> None:
        (batch,), _, special = build_inputs(llama, InputOptions(special_tokens=False))
        assert special == ()
        assert not any(map(any, batch.special))

    def test_closing_special_tokens_survive_the_cut(
        self, tokenizer: transformers.PreTrainedTokenizerFast
    ) -> None:
        from tokenizers import processors

        both = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer.backend_tokenizer.from_str(
                tokenizer.backend_tokenizer.to_str()
            ),
            bos_token="<s>",
            eos_token="</s>",
        )
        ends = [(token, both.convert_tokens_to_ids(token)) for token in ("<s>", "</s>")]
        both.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=ends
        )
        (batch,), _, special = build_inputs(tiny(gpt2(), both), InputOptions())
        assert special == ("<s>", "</s>")
        assert {row[-1] for row in batch.ids or ()} == {ends[1][1]}
        assert batch.inputs["input_ids"].shape == (4, LENGTH)

    def test_the_models_positions_are_the_limit(
        self, tokenizer: transformers.PreTrainedTokenizerFast
    ) -> None:
        loaded = tiny(gpt2(n_positions=9), tokenizer)
        batches, probe, _ = build_inputs(loaded, InputOptions())
        assert batches[0].inputs["input_ids"].shape == (4, 9)
        assert probe.tokens == 36
        runs(loaded, batches)

    def test_positions_counted_from_behind_the_padding_row(
        self, tokenizer: transformers.PreTrainedTokenizerFast
    ) -> None:
        config = transformers.RobertaConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            vocab_size=400, max_position_embeddings=20, pad_token_id=2,
        )  # fmt: skip
        loaded = tiny(transformers.RobertaModel(config), tokenizer)
        batches, _, _ = build_inputs(loaded, InputOptions())
        assert batches[0].inputs["input_ids"].shape == (4, 17)
        runs(loaded, batches)

    def test_an_embedding_too_small_for_the_tokenizer_gets_drawn_ids(
        self, tokenizer: transformers.PreTrainedTokenizerFast
    ) -> None:
        loaded = tiny(gpt2(vocab_size=11, n_positions=8), tokenizer)
        batches, probe, special = build_inputs(loaded, InputOptions(seed=4))
        assert (probe.kind, probe.seed, special) == ("random-ids", 4, ())
        assert "the embedding has 11 rows: seeded token ids" in str(probe.note)
        runs(loaded, batches)

    def test_a_tokenizer_that_knows_nothing_gets_drawn_ids(self) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers

        words = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1}, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        chemistry = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
        _, probe, _ = build_inputs(tiny(gpt2(), chemistry), InputOptions())
        assert probe.kind == "random-ids"
        assert "are unknown to the tokenizer" in str(probe.note)

    def test_a_tokenizers_own_limit_is_kept_without_a_warning(
        self, llama_dir: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        short = transformers.PreTrainedTokenizerFast.from_pretrained(llama_dir, model_max_length=20)
        (batch,), _, _ = build_inputs(tiny(gpt2(), short), InputOptions())
        assert batch.inputs["input_ids"].shape == (4, 20)
        assert capfd.readouterr() == ("", "")


class TestRandomIds:
    @settings(max_examples=25, deadline=None)
    @given(rows=st.integers(2, 40), padding=st.integers(0, 39), seed=st.integers(0, 2**32))
    def test_they_have_rows_and_are_no_padding(self, rows: int, padding: int, seed: int) -> None:
        model = gpt2(vocab_size=rows, n_positions=16, pad_token_id=padding % rows)
        (batch,), probe, _ = build_inputs(tiny(model), InputOptions(seed=seed))
        ids = batch.inputs["input_ids"]
        assert int(ids.min()) >= 0
        assert int(ids.max()) < rows
        assert not bool((ids == padding % rows).any())
        assert probe.note == "no tokenizer: seeded token ids"

    def test_they_are_seeded(self) -> None:
        one, again, other = (
            build_inputs(tiny(gpt2()), InputOptions(seed=s))[0][0].inputs["input_ids"]
            for s in (1, 1, 2)
        )
        assert torch.equal(one, again)
        assert not torch.equal(one, other)

    def test_their_tokens_are_positions(self) -> None:
        (batch,), _, _ = build_inputs(tiny(gpt2(n_positions=3)), InputOptions())
        assert batch.tokens[0] == ("0", "1", "2")


class TestUserTexts:
    def test_each_length_is_a_batch_and_rows_say_which_text(self, llama: LoadedModel) -> None:
        texts = ("a b", "a much longer text than the others", "c d")
        batches, probe, special = build_inputs(llama, InputOptions(texts=texts))
        assert [batch.rows for batch in batches] == [(0, 2), (1,)]
        assert [batch.texts for batch in batches] == [("a b", "c d"), (texts[1],)]
        assert (probe.kind, probe.texts, probe.sequences) == ("user-texts", texts, 3)
        assert probe.tokens == sum(batch.inputs["input_ids"].numel() for batch in batches)
        assert special == ("<s>",)
        runs(llama, batches)

    def test_many_texts_are_several_forwards(self, llama: LoadedModel) -> None:
        batches, _, _ = build_inputs(llama, InputOptions(texts=("word",) * 5000))
        assert len(batches) > 1
        assert [row for batch in batches for row in batch.rows] == list(range(5000))

    def test_a_text_past_the_positions_is_truncated_with_a_note(
        self, tokenizer: transformers.PreTrainedTokenizerFast
    ) -> None:
        loaded = tiny(gpt2(n_positions=8), tokenizer)
        (batch,), probe, _ = build_inputs(loaded, InputOptions(texts=(TEXTS[0],)))
        assert batch.inputs["input_ids"].shape == (1, 8)
        assert str(probe.note).startswith("truncated to the model's 8 positions: text 0 (")
        runs(loaded, (batch,))

    def test_an_empty_text_is_an_error(
        self, tokenizer: transformers.PreTrainedTokenizerFast, llama: LoadedModel
    ) -> None:
        with pytest.raises(UsageError, match=r"text 1 .* has no tokens"):
            build_inputs(llama, InputOptions(texts=("a", ""), special_tokens=False))

    def test_texts_need_a_tokenizer(self) -> None:
        with pytest.raises(UsageError, match="no tokenizer"):
            build_inputs(tiny(gpt2()), InputOptions(texts=("a",)))

    def test_texts_need_a_model_that_reads(self) -> None:
        config = transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            image_size=8, patch_size=4,
        )  # fmt: skip
        with pytest.raises(UsageError, match="ViTModel takes no token ids"):
            build_inputs(tiny(transformers.ViTModel(config)), InputOptions(ids=((1,),)))

    def test_a_chat_goes_through_the_template(
        self, tokenizer: transformers.PreTrainedTokenizerFast, llama_dir: Path
    ) -> None:
        chatty = transformers.PreTrainedTokenizerFast.from_pretrained(llama_dir)
        chatty.chat_template = TEMPLATE
        loaded = tiny(gpt2(), chatty)
        (batch,), _, special = build_inputs(loaded, InputOptions(texts=("hello",), chat=True))
        assert "".join(batch.tokens[0]) == "<s>user: hello</s><s>answer:"
        assert special == ("<s>", "</s>")

    def test_a_chat_without_a_template_is_an_error(self, llama: LoadedModel) -> None:
        with pytest.raises(UsageError, match="chat needs a chat template"):
            build_inputs(llama, InputOptions(texts=("hello",), chat=True))

    def test_a_chat_without_a_text_is_an_error(self, llama: LoadedModel) -> None:
        with pytest.raises(UsageError, match="chat needs a text"):
            build_inputs(llama, InputOptions(chat=True))


class TestUserIds:
    def test_they_are_run_as_they_are(self, llama: LoadedModel) -> None:
        batches, probe, special = build_inputs(
            llama, InputOptions(ids=((5, 6, 7), (8, 9), (0, 399, 1)))
        )
        assert [batch.inputs["input_ids"].tolist() for batch in batches] == [
            [[5, 6, 7], [0, 399, 1]],
            [[8, 9]],
        ]
        assert (probe.kind, probe.tokens, special) == ("inputs", 8, ())
        runs(llama, batches)

    @pytest.mark.parametrize("wrong", [400, -1, 10**12])
    def test_an_id_without_a_row_is_named(self, llama: LoadedModel, wrong: int) -> None:
        with pytest.raises(UsageError, match=f"token id {wrong} .*of 400 rows"):
            build_inputs(llama, InputOptions(ids=((1, 2), (3, wrong))))

    def test_too_many_and_none_are_errors(self, llama: LoadedModel) -> None:
        with pytest.raises(UsageError, match="257 token ids; the model has 256"):
            build_inputs(llama, InputOptions(ids=(tuple(range(257)),)))
        with pytest.raises(UsageError, match="sequence 1 of the token ids is empty"):
            build_inputs(llama, InputOptions(ids=((1,), ())))

    def test_a_plain_module_takes_them_by_its_own_name(self) -> None:
        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.table = torch.nn.Embedding(9, 4)

            def forward(self, idx: torch.Tensor) -> torch.Tensor:
                return self.table(idx)

        loaded = wrap_module(Net())
        (batch,), _, _ = build_inputs(loaded, InputOptions(ids=((8, 0),)))
        assert batch.inputs["idx"].tolist() == [[8, 0]]
        with pytest.raises(UsageError, match=r"token id 9 .*of 9 rows"):
            build_inputs(loaded, InputOptions(ids=((9,),)))


class TestEncoderDecoder:
    @pytest.fixture
    def t5(self) -> transformers.T5ForConditionalGeneration:
        config = transformers.T5Config(
            d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=400,
            decoder_start_token_id=7,
        )  # fmt: skip
        return transformers.T5ForConditionalGeneration(config)

    def test_the_decoder_reads_the_same_text_one_later(
        self,
        t5: transformers.T5ForConditionalGeneration,
        tokenizer: transformers.PreTrainedTokenizerFast,
    ) -> None:
        loaded = tiny(t5, tokenizer)
        (batch,), probe, _ = build_inputs(loaded, InputOptions())
        ids, decoder = batch.inputs["input_ids"], batch.inputs["decoder_input_ids"]
        assert torch.equal(decoder, t5.prepare_decoder_input_ids_from_labels(ids))
        assert "shifted right, after token 7" in str(probe.note)
        runs(loaded, (batch,))


class TestTokenTexts:
    def test_they_join_to_the_text(self, tokenizer: transformers.PreTrainedTokenizerFast) -> None:
        ids = tuple(tokenizer("The keeper, who was nine!", add_special_tokens=False)["input_ids"])
        texts = token_texts(tokenizer, ids)
        assert "".join(texts) == "The keeper, who was nine!"
        assert any(text.startswith(" ") for text in texts)

    def test_sentencepieces_space_is_kept(self) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁the", -1.0), ("▁sea", -1.0)], 0))
        unigram.pre_tokenizer = pre_tokenizers.Metaspace()
        unigram.decoder = decoders.Metaspace()
        pieces = transformers.PreTrainedTokenizerFast(tokenizer_object=unigram, unk_token="<unk>")
        assert token_texts(pieces, (1, 2)) == (" the", " sea")

    def test_an_id_that_the_tokenizer_does_not_have(
        self, tokenizer: transformers.PreTrainedTokenizerFast
    ) -> None:
        assert token_texts(tokenizer, (9999,)) == ("<9999>",)


def test_the_built_in_texts_are_long_enough_for_words() -> None:
    """Even a tokenizer that never splits a word gets a fair share of the length."""
    assert all(len(text.split()) > LENGTH / 2 for text in TEXTS)
