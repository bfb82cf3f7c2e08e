# Bug: a Trainer with its own compute_loss keeps the logits of each step for a later metric.
import tempfile
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from common import SECONDS, STEPS
from tiny import CUDA

width, layers, length = (512, 4, 128) if CUDA else (64, 2, 64)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        ids = torch.randint(0, 1000, (length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


class TimeLimit(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.end = time.monotonic() + SECONDS

    def on_step_end(self, args, state, control, **kwargs):
        if not STEPS:
            time.sleep(0.0 if CUDA else 0.03)
            control.should_training_stop = time.monotonic() > self.end


class Keeping(Trainer):
    kept = []

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        self.kept.append(outputs.logits.detach()[:, :: 4 if CUDA else 1].clone())  # CULPRIT
        return (outputs.loss, outputs) if return_outputs else outputs.loss


config = GPT2Config(vocab_size=1000, n_embd=width, n_layer=layers, n_head=8, n_positions=length)
with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        output_dir=folder, max_steps=STEPS or 100_000, per_device_train_batch_size=8 if CUDA else 4,
        save_strategy="no", logging_steps=1000, report_to=[], disable_tqdm=True, seed=0,
    )
    trainer = Keeping(GPT2LMHeadModel(config), args, train_dataset=Rows(), callbacks=[TimeLimit()])
    trainer.log = lambda *_, **__: None  # its lines contain times
    trainer.train()
print("trained", trainer.state.global_step if STEPS else "")
