"""Bug: one key-value cache object serves all requests, so it holds the tokens of all of them."""

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from parts import until

config = LlamaConfig(
    vocab_size=8000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=8,
    num_attention_heads=8,
    num_key_value_heads=8,
    max_position_embeddings=65536,
)
model = LlamaForCausalLM(config).cuda().bfloat16().eval()
cache = DynamicCache()  # CULPRIT-HOLDER


@torch.no_grad()
def answer(prompt, new_tokens=4):
    tokens, reply = prompt, []
    for _ in range(new_tokens):
        output = model(tokens, past_key_values=cache, use_cache=True)
        tokens = output.logits[:, -1:].argmax(-1)
        reply.append(tokens.item())
    return reply


for request in until(pause=0.03):
    prompt = torch.randint(0, 8000, (1, 60), device="cuda")
    reply = answer(prompt)
    if request % 20 == 0:
        print("request", request, reply, flush=True)
