"""`holdfast doctor` asks a target through its proxy, and says what to do if that stands in the way."""

from holdfast.chaos import ChaosServer, Say
from holdfast.cli.doctor.targets import PROXY_ADVICE, ask_targets
from holdfast.targets import Target
from models.calls.proxying import Proxy, proxy

PASSWORD = "hunter2hunter2"  # noqa: S105  # nobody's


def target_of(chaos: ChaosServer, through: Proxy) -> Target:
    way = through.url.replace("//", f"//ann:{PASSWORD}@")
    url = f"http://models.example:{chaos.port}/v1"
    return Target(name="main", wire="chat", base_url=url, model="m", proxy=way)


async def test_a_target_behind_a_proxy_is_asked_through_it() -> None:
    async with ChaosServer([Say("ok")]) as chaos, proxy() as way:
        (finding,) = await ask_targets([target_of(chaos, way)])
    assert finding.state == "ok"
    assert finding.text.endswith(f", through the proxy 127.0.0.1:{way.port}")
    assert len(way.lines) == 1


async def test_a_proxy_that_refuses_is_what_to_look_at_and_its_password_stays_hidden() -> None:
    """P9, P11."""
    async with ChaosServer([Say("ok")]) as chaos, proxy(f"407 not {PASSWORD}") as way:
        (finding,) = await ask_targets([target_of(chaos, way)])
    assert (finding.state, finding.advice) == ("fault", PROXY_ADVICE)
    assert f"the proxy 127.0.0.1:{way.port} requires a user name and a password (407)" in finding.text
    assert PASSWORD not in repr(finding)
