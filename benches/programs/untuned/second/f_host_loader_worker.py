# Bug: the data set of a loader worker caches every decoded sample, which never comes again. host_leak in the workers
import os, time, torch, numpy as np
from torch import nn
class Stream(torch.utils.data.IterableDataset):
    def __init__(self): self.cache = {}
    def __iter__(self):
        i = 0
        while True:
            self.cache[i] = np.random.default_rng(i).standard_normal((256, 256)).astype("f4")  # CULPRIT
            yield torch.from_numpy(self.cache[i]); i += 1
def main():
    net = nn.Linear(256, 256).cuda(); opt = torch.optim.SGD(net.parameters(), .01); end = time.time() + float(os.environ.get("SCENARIO_S", "20")); n = 0
    for x in torch.utils.data.DataLoader(Stream(), 16, num_workers=2):
        l = net(x.cuda()).square().mean(); opt.zero_grad(); l.backward(); opt.step(); n += 1
        if time.time() > end: break
    print(n)
if __name__ == "__main__": main()
