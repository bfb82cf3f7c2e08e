# Bug: metrics are pushed to a queue as GPU tensors; the consumer is slower than the producer.
from net import *
import queue, threading
q = queue.Queue()
def drain():
    while True:
        x = q.get(); time.sleep(.5); x.mean().item()
threading.Thread(target=drain, daemon=True).start()
model, opt = make()
for i in until():
    loss, logits = train_step(model, opt, batch(4, 128))
    q.put(logits[:, -1].detach().float() * 1.0)  # CULPRIT
