"""Clean: sessions end after 90 s without a request; the run is shorter than that."""

import random
import time

from parts import until


class Sessions:
    def __init__(self, lifetime):
        self.lifetime = lifetime
        self.open = {}

    def touch(self, token, request):
        now = time.monotonic()
        session = self.open.setdefault(token, {"at": now, "requests": []})
        session["at"] = now
        session["requests"].append(request)
        return len(session["requests"])

    def expire(self):
        oldest = time.monotonic() - self.lifetime
        for token in [token for token, session in self.open.items() if session["at"] < oldest]:
            del self.open[token]


def main():
    rnd = random.Random(1)
    sessions = Sessions(90.0)
    served = 0
    for n in until(150):
        token = f"{rnd.getrandbits(128):032x}"
        served += sessions.touch(token, rnd.randbytes(18_000))
        if n % 150 == 0:
            sessions.expire()
    print(served > 0)


if __name__ == "__main__":
    main()
