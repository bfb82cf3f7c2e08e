"""Clean: beam search server; the key-value cache grows with each token until the request ends."""

import random

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from parts import until

random.seed(3)
config = GPT2Config(
    vocab_size=8000,
    n_positions=1024,
    n_embd=512,
    n_layer=6,
    n_head=8,
    bos_token_id=0,
    eos_token_id=1,
    pad_token_id=2,
)
model = GPT2LMHeadModel(config).cuda().half().eval()


def answer(prompt, new_tokens):
    output = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        num_beams=6,
        do_sample=False,
        min_new_tokens=new_tokens // 2,
        max_new_tokens=new_tokens,
    )
    return output[0, prompt.shape[1] :].tolist()


tokens = 0
for request in until(pause=0.01):
    prompt = torch.randint(3, 8000, (1, random.randint(16, 600)), device="cuda")
    tokens += len(answer(prompt, random.randint(16, 160)))
    if request % 10 == 0:
        print("requests", request, "tokens", tokens, flush=True)
