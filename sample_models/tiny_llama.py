"""How `tiny_llama/` was made: a Llama of 228,000 parameters, trained for a minute.

    python sample_models/tiny_llama.py DIRECTORY

trains it and its tokenizer on the text below and writes a checkpoint that transformers reads.
The same versions of torch and tokenizers, on one thread of the same kind of processor, give the
same files.

normdiag must find
    one stack `model.layers`: pre, rmsnorm, 8 layers, 2 norms and 2 adds each, x + F(rms(x))
    17 norms of 48 features with epsilon 1e-5; the last, `model.norm`, is the final norm
    the special token <s> in front of every text, put there by the tokenizer
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEXT = """\
A transformer carries a vector for every token from the bottom of the network to the top. This
vector is called the residual stream. No layer replaces it; each layer reads it, computes
something, and adds the result back. What the embedding wrote is still there at the end, under
everything that was added since.

Reading is done through a norm. The norm divides the vector by its own size, so that the layer
behind it always sees numbers of the same scale, however large the stream has become. LayerNorm
first subtracts the mean of the channels and then divides by their standard deviation. RMSNorm
leaves the mean alone and divides by the root of the mean square. Both multiply the result by a
learned gain, one number for each channel, and both add a small epsilon under the root, so that
a vector of zeros does not become a division by zero.

Where the norm stands decides what happens to depth. In the first transformers it stood on the
stream, after the addition. The stream then has the same size in every layer, but the gradient
has to pass through every norm on its way down, and deep networks of this kind need a slow
start. Later the norm was moved into the branch, in front of the layer. Now there is a clean
path from the loss to the embedding, and hundreds of layers train without trouble. The price is
growth: every branch adds something, and nothing ever makes the stream smaller. If the updates
are independent, the square of its size grows by the same amount in each layer. If they point
the same way, it grows faster, and the last layers have little left to say.

What can go wrong? The variance that a norm sees can fall below epsilon; then the norm no longer
normalises. A single channel can become a thousand times larger than the others; then the norm
divides everything else by it. A gain can go to zero, and the channel is gone. A branch can
shrink until it writes nothing, or write the negative of what it read until nothing is left. In
half precision a small update to a large stream is rounded away. The loss shows none of this at
first. It only falls a little more slowly than it should, and one day it does not fall any more.

To see it, one has to look inside. Measure the stream before and after every addition. Measure
what each norm divides by. Ask how much of the change in a layer's input comes through to its
output, and in which directions. Count the tokens that are far larger than the rest; the first
token of a text often is, because attention has to look somewhere when there is nothing to see.
Then compare the numbers with what the arithmetic says they should be, layer by layer, and the
broken place shows itself.

def layer_norm(x, gain, bias, epsilon):
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    size = (variance + epsilon) ** 0.5
    return [g * (value - mean) / size + b for value, g, b in zip(x, gain, bias)]

def rms_norm(x, gain, epsilon):
    mean_square = sum(value ** 2 for value in x) / len(x)
    size = (mean_square + epsilon) ** 0.5
    return [g * value / size for value, g in zip(x, gain)]

for layer in layers:
    x = x + attention(norm(x))
    x = x + mlp(norm(x))
"""

CONFIG = LlamaConfig(
    vocab_size=512,
    hidden_size=48,
    intermediate_size=128,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
    bos_token_id=0,
    eos_token_id=1,
)


def make_tokenizer():
    """Byte-level BPE: any text round-trips, and every text starts with <s>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG.vocab_size,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", model_max_length=512
    )


def train(model, ids, steps=600, batch=16, length=64):
    """Next-token prediction on random windows of the text, each with <s> in front."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for step in range(steps):
        starts = torch.randint(1, len(ids) - length, (batch,)).tolist()
        windows = torch.stack([torch.cat([ids[:1], ids[i : i + length]]) for i in starts])
        loss = model(input_ids=windows, labels=windows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step:3}  loss {loss.item():.3f}")  # noqa: T201
    return model.eval()


def main(directory):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    ids = tokenizer(TEXT, return_tensors="pt", verbose=False)["input_ids"][0]
    model = train(LlamaForCausalLM(CONFIG), ids)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


if __name__ == "__main__":
    main(sys.argv[1])
