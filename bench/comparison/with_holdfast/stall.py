"""Give up on a model that sends nothing for five seconds, and ask again."""

import sys

from holdfast import Agent, Target
from holdfast.targets import Patience

target = Target(
    name="main", wire="chat", base_url=sys.argv[1], model="gpt-5", patience=Patience(first_event_s=5)
)
print(Agent(target).run_sync("Say hello").output)
