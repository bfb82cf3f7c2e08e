"""Bug: each request subscribes its session to the settings and never unsubscribes it."""

import collections
import hashlib
import json
import random

from parts import until


class Settings:
    def __init__(self):
        self.values = {"theme": "light"}
        self.listeners = collections.defaultdict(list)

    def subscribe(self, name, listener):
        self.listeners[name].append(listener)  # CULPRIT

    def change(self, name, value):
        self.values[name] = value
        for listener in self.listeners[name]:
            listener(value)


settings = Settings()


class Session:
    def __init__(self, request):
        self.theme = settings.values["theme"]
        self.history = [json.dumps(request) + hashlib.sha256(str(k).encode()).hexdigest() for k in range(60)]
        settings.subscribe("theme", self.on_theme)  # CULPRIT-HOLDER

    def on_theme(self, theme):
        self.theme = theme

    def answer(self):
        return {"theme": self.theme, "items": len(self.history)}


def main():
    rnd = random.Random(1)
    answers = 0
    for n in until(150):
        session = Session({"id": n, "query": "q" * rnd.randrange(20, 200)})
        answers += session.answer()["items"]
        if n % 1000 == 999:
            settings.change("theme", rnd.choice(["light", "dark"]))
    print(answers > 0)


if __name__ == "__main__":
    main()
