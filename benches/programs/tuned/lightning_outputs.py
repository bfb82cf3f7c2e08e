# Bug: the training step of a Lightning module appends to self.outputs; nothing clears the list at
# the end of an epoch.
import tempfile
import time
import warnings

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from common import SECONDS, STEPS
from tiny import BATCH, CUDA, LENGTH, VOCAB, LanguageModel, loss_of

warnings.filterwarnings("ignore")


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.outputs = LanguageModel(), []

    def training_step(self, batch, _):
        loss, logits = loss_of(self.model, batch[0])
        self.outputs.append(logits.detach()[:, :: 32 if CUDA else 1].clone())  # CULPRIT
        time.sleep(0.0 if CUDA or STEPS else 0.03)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


lightning.seed_everything(0, verbose=False)
rows = TensorDataset(torch.randint(0, VOCAB, ((400 if CUDA else 60) * BATCH, LENGTH)))
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        max_steps=STEPS or -1, max_time=None if STEPS else {"seconds": SECONDS}, max_epochs=-1,
        default_root_dir=folder, logger=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(rows, BATCH))
print("trained")
